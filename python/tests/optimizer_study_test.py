"""bench/optimizer_study.py: quantisers, budgets and gradients of simulated workers, and studies that are continued."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

BENCH = Path(__file__).parents[2] / "bench"
ARMS = ["dense", "dither:3+widths=energy+alpha=0.5", "eden:2+units=16+pow2"]


@pytest.fixture(scope="module")
def optimizer_study():
    spec = importlib.util.spec_from_file_location("optimizer_study", BENCH / "optimizer_study.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCH))


@pytest.fixture(scope="module")
def simulated(optimizer_study):
    from simulated import arms, networks, quantisers, reduction
    return {"arms": arms, "networks": networks, "quantisers": quantisers, "reduction": reduction}


def quantiser_of(simulated, name):
    quantisers = simulated["quantisers"]
    return quantisers.dither if name == "dither" else quantisers.Eden(torch.device("cpu"), torch.float32)


@pytest.mark.parametrize(("name", "width", "error"), [("dither", 3, 0.033), ("dither", 5, 0.0017), ("eden", 1, 0.58),
                                                      ("eden", 2, 0.134), ("eden", 4, 0.0097)])
def test_quantisers_are_unbiased_and_have_their_error(simulated, name, width, error) -> None:
    """On uneven values: a fixed input, quantised with many keys."""
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(8, 256, generator=generator) * torch.rand(8, 256, generator=generator)
    values[2] = 0
    widths = torch.full((8,), width)
    quantise, key_of = quantiser_of(simulated, name), simulated["quantisers"].key_of
    decoded = torch.stack([quantise(values, widths, key_of(torch.tensor(step), 1)) for step in range(400)])
    assert torch.equal(decoded[:, 2], torch.zeros(400, 256))
    ratio = ((decoded - values) ** 2).sum() / (400 * (values**2).sum())
    assert error / 1.6 < ratio < error * 1.6
    slope = (decoded.mean(0) * values).sum() / (values**2).sum()
    assert abs(slope - 1) < 0.01
    # The error of the mean falls with the number of draws.
    assert ((decoded.mean(0) - values) ** 2).sum() / (values**2).sum() < 2 * ratio / 400


def small_network(simulated):
    networks = simulated["networks"]
    shape = networks.Shape(layers=1, width=32, heads=2, context=8, inputs=64, outputs=64, causal=True)
    network = networks.Network(shape, 4, torch.device("cpu"), torch.float32)
    network.start(1)
    return network


def batch():
    tokens = torch.from_numpy(np.random.default_rng(5).integers(0, 64, size=(8, 9)))
    return tokens[:, :-1], tokens[:, 1:]


def test_a_backward_pass_leaves_the_gradient_of_each_worker(simulated) -> None:
    network = small_network(simulated)
    inputs, targets = batch()
    loss, norms = network.backward(inputs, targets)
    together, mean_norms = network.gradients.clone(), torch.zeros_like(norms)
    for worker in range(4):
        own = slice(2 * worker, 2 * worker + 2)
        alone = small_network(simulated)
        alone.gradients = alone.gradients[:1]
        alone.stores = {name: store[:1] for name, store in alone.stores.items()}
        mean_norms += alone.backward(inputs[own], targets[own])[1] / 4
        torch.testing.assert_close(alone.gradients[0], together[worker])
    torch.testing.assert_close(norms, mean_norms)
    # The mean over workers is the slope of the loss.
    direction = torch.randn(network.flat.shape, generator=torch.Generator().manual_seed(2))
    slope = (together.mean(0) * direction).sum()
    with torch.no_grad():
        network.flat.add_(direction, alpha=1e-3)
        up = network.loss(inputs, targets)
        network.flat.sub_(direction, alpha=2e-3)
        down = network.loss(inputs, targets)
    assert functional.l1_loss((up - down) / 2e-3, slope) < 0.02 * abs(slope) + 1e-3
    assert torch.isfinite(loss)


@pytest.mark.parametrize("text", ["dither:2.5+widths=energy+alpha=1", "dither:3.1", "eden:2+widths=energy+felt",
                                  "eden:2.5+units=1", "eden:4+widths=energy+units=256+pow2"])
def test_widths_use_the_budget(simulated, text) -> None:
    network = small_network(simulated)
    network.gradients.normal_(generator=torch.Generator().manual_seed(4))
    arm = simulated["arms"].parse_arm(text)
    reduction = simulated["reduction"].Reduction(arm, network, on_gpu=False)
    for step in range(2):
        mean = reduction(torch.tensor(step))
        factor = torch.ones(1, 1)
        if arm.units:
            factor = reduction.factors(reduction.v, torch.tensor(1), arm.units, arm.pow2)
        widths = reduction.widths(factor, torch.tensor(step)).float().mean()
        # Widths of even arms are drawn, so that their mean scatters.
        assert abs(widths - arm.code_bits) < (0.12 if arm.widths == "even" else 1.5 / len(reduction.v))
    exact = network.gradients.mean(0).view_as(mean)
    if arm.units != 1:  # a v of one step per element is too uneven for a small error of the whole
        assert ((mean - exact) ** 2).sum() < 0.3 * (exact**2).sum()


def test_a_study_is_continued_with_further_arms(optimizer_study, tmp_path, capsys) -> None:
    for split in ("train", "valid"):
        (tmp_path / f"wikitext2_{split}.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 40)
    options = ["--data", str(tmp_path), "--size", "tiny", "--steps", "6", "--seeds", "2", "-o", str(tmp_path)]
    assert optimizer_study.main([*options, "--arms", *ARMS[:2]]) == 0
    kept = (tmp_path / "runs.jsonl").read_text()
    assert optimizer_study.main([*options, "--arms", *ARMS]) == 0
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert (tmp_path / "runs.jsonl").read_text().startswith(kept)
    assert [(row["arm"], row["seed"]) for row in rows] == [
        *((arm, seed) for seed in (1, 2) for arm in ARMS[:2]), (ARMS[2], 1), (ARMS[2], 2)]
    assert rows[0]["errors"]["5"] == {"vnmse": 0.0, "felt": 0.0}
    assert 0 < rows[1]["errors"]["5"]["vnmse"] < 0.2
    assert "8 workers, 6 steps" in capsys.readouterr().out
    assert optimizer_study.main([*options, "--arms", *ARMS, "--deadline", "0", "--seeds", "3"]) == 0
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == len(rows)


@pytest.mark.parametrize(("arm", "words"), [
    ("dither:1", "0.6875 bits are left"), ("lloyd:2", "quantiser 'lloyd' is unknown"),
    ("eden:2+units=7", "units one of"), ("eden:2+width=3", "option 'width=3' is unknown")])
def test_bad_arms_are_rejected(optimizer_study, capsys, tmp_path, arm, words) -> None:
    with pytest.raises(SystemExit):
        optimizer_study.main(["--data", str(tmp_path), "-o", str(tmp_path), "--arms", "dense", arm])
    assert words in capsys.readouterr().err
