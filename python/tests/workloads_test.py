"""The workloads learn, and are fully determined by their arguments."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from coloured_images import write_npz
from neuron_fabric_lab.train.options import TrainOptions
from neuron_fabric_lab.train.run import Run
from neuron_fabric_lab.workloads import WORKLOADS, make_workload
from neuron_fabric_lab.workloads.gpt import library_text
from neuron_fabric_lab.workloads.sampling import Shuffle
from tiny_sentences import write_tsv
from tiny_words import write_words


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """For small models, threads cost more than they save."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=sorted(WORKLOADS))
def workload(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write = {"sst2": write_tsv, "llama": write_words}.get(request.param)
    data = write(folder) if write else write_npz(folder, request.param)
    return make_workload(request.param, "tiny", data)


@pytest.fixture
def alone(tmp_path):
    """A process group of one rank."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def take(batches, count):
    return list(itertools.islice(batches, count))


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_the_seed_determines_the_weights(workload):
    first = weights(workload.make_model(1))
    assert torch.equal(first, weights(workload.make_model(1)))
    assert not torch.equal(first, weights(workload.make_model(2)))


def test_making_a_model_does_not_advance_the_callers_generator(workload):
    before = torch.get_rng_state()
    workload.make_model(1)
    assert torch.equal(before, torch.get_rng_state())


def test_batches_follow_from_seed_step_and_rank(workload):
    first = take(workload.batches(0, 2, seed=1), 3)
    again = take(workload.batches(0, 2, seed=1), 3)
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert not same(first[0], first[1])
    assert not same(first[0], take(workload.batches(1, 2, seed=1), 1)[0])
    assert not same(first[0], take(workload.batches(0, 2, seed=2), 1)[0])


def test_a_resumed_run_gets_the_batches_it_has_not_had(workload):
    whole = take(workload.batches(1, 2, seed=1), 5)
    rest = take(workload.batches(1, 2, seed=1, start=3), 2)
    assert all(same(a, b) for a, b in zip(whole[3:], rest, strict=True))


def test_an_untrained_model_guesses_and_keeps_its_mode(workload):
    model = workload.make_model(1)
    model.train()
    evaluation = workload.evaluate(model)
    assert 0 <= evaluation.accuracy < (0.7 if workload.name == "sst2" else 0.3)
    assert evaluation.loss == workload.evaluate(model).loss
    assert model.training


def train(workload, steps, seed):
    """Trains with plain DDP in a process group of one rank; returns the finished run."""
    run = Run(TrainOptions(workload=workload.name, route="plain", ranks=1, steps=steps, seed=seed,
                           out=Path("unused")), workload, torch.device("cpu"))
    while not run.is_over:
        run.advance()
    return run


def test_training_lowers_the_loss(workload, alone):
    before = workload.evaluate(workload.make_model(1))
    run = train(workload, steps=50, seed=1)
    assert run.curve[-1]["step"] == len(run.losses) == 50
    assert run.curve[-1]["loss"] < 0.8 * before.loss
    assert run.curve[-1]["accuracy"] > before.accuracy
    assert run.traffic().bytes == 0  # no peer


def test_training_again_gives_the_same_bits(alone):
    workload = make_workload("digits", "tiny")
    first, again = (train(workload, steps=5, seed=3) for _ in range(2))
    assert first.losses == again.losses
    assert torch.equal(weights(first.model), weights(again.model))


def test_the_learning_rate_rises_then_falls_to_zero(workload):
    rates = [workload.rate(step, 100) for step in range(101)]
    peak = int(np.argmax(rates))
    assert rates[peak] == 1
    assert rates == sorted(rates[:peak]) + sorted(rates[peak:], reverse=True)
    assert rates[100] == 0


def test_an_epoch_has_every_example_once_and_another_order_each_time():
    order = Shuffle(50, seed=1)
    taken = np.concatenate([order.batch(step, rank, ranks=2, size=10)
                            for step in range(5) for rank in range(2)])
    assert sorted(taken[:50]) == sorted(taken[50:]) == list(range(50))
    assert not np.array_equal(taken[:50], taken[50:])
    assert np.array_equal(Shuffle(50, seed=1).take(45, 10), taken[45:55])
    assert not np.array_equal(Shuffle(50, seed=2).take(0, 50), taken[:50])


def test_digits_are_evaluated_on_held_out_images():
    digits = make_workload("digits", "tiny")
    assert len(digits.labels) + len(digits.judges[1]) == 1797
    assert set(digits.judges[1].tolist()) == set(range(10))


def test_text_is_evaluated_on_held_out_text():
    learnt, judges = library_text()
    assert len(learnt) > 10 * len(judges) > 0
    assert judges[:400].tobytes() not in learnt.tobytes()


def test_the_target_of_a_byte_is_the_byte_after_it():
    inputs, targets = next(make_workload("gpt", "tiny").batches(0, 1, seed=1))
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_unknown_names_and_sizes_are_reported_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown workload cifar; known are digits, gpt, hostile, cifar100, cifar10, sst2, llama"):
        make_workload("cifar")
    with pytest.raises(ValueError, match="gpt has no size huge; it has tiny, mini, small"):
        make_workload("gpt", "huge")
