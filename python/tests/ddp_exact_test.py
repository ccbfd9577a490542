"""If everything is dense, training is bit-identical to plain DDP."""

import copy
import os
from unittest import mock

import neuron_fabric as nf
import pytest
import torch
from ranks import on_ranks
from small_job import Records, batches, digest, loss_of, make, profile, sgd, wrap
from training_modes import MODES, OVERFLOW_STEP, STEPS, Attach, Run, finish, plainly, train


def both_ways(mode: str, environment: dict[str, str], **options: object) -> tuple[Run, Run]:
    """Without a fabric, and with one."""
    with mock.patch.dict(os.environ, environment):
        return MODES[mode](lambda _: None), MODES[mode](lambda ddp: nf.attach(ddp, **options))


def compare(ranks: int, mode: str, environment: dict[str, str] | None = None,
            **options: object) -> list[tuple[Run, Run]]:
    return check(on_ranks(ranks, both_ways, mode, environment or {}, **options))


def check(runs: list[tuple[Run, Run]]) -> list[tuple[Run, Run]]:
    for plain, ours in runs:
        assert ours.digests == plain.digests
        assert ours.facts == plain.facts
    last = {ours.digests[-1] for _, ours in runs}
    assert len(last) == 1, "ranks hold different parameters"
    return runs


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("mode", MODES)
def test_fp32_trains_as_plain_ddp(ranks, mode):
    for _, ours in compare(ranks, mode, route="fp32"):
        assert ours.steps == STEPS
        assert ours.bytes_ratio == 1.0
        # join() adds one digest, and an overflow skips one step.
        assert len(set(ours.digests)) >= len(ours.digests) - 1, "the model does not train"


@pytest.mark.parametrize("route", ["fp32", "waterfill:4"])
def test_after_an_overflow_on_one_rank_all_ranks_skip_the_step(route):
    runs = [ours for _, ours in on_ranks(2, both_ways, "grad_scaler", {}, route=route)]
    assert runs[0].facts == runs[1].facts
    assert runs[0].digests == runs[1].digests
    for run in runs:
        scales, digests = run.facts["scales"], run.digests
        assert scales[OVERFLOW_STEP] == scales[OVERFLOW_STEP - 1] / 2
        skipped = [step for step in range(1, STEPS) if digests[step] == digests[step - 1]]
        assert skipped == [OVERFLOW_STEP]


def test_the_compiled_model_is_split_at_bucket_borders():
    for plain, _ in on_ranks(2, both_ways, "compile", {}, route="fp32"):
        assert plain.facts["graphs"] > 1


@pytest.mark.parametrize("mode", ["plain", "no_sync", "join", "grad_scaler"])
def test_off_is_plain_ddp(mode):
    compare(2, mode, {"NF_MODE": "off"}, route="waterfill:4")


def shadow_figures() -> tuple[Run, Run, dict]:
    with mock.patch.dict(os.environ, {"NF_MODE": "shadow"}):
        model = make()
        ddp = wrap(model)
        fabric = nf.attach(ddp, route="waterfill:4")
        ours = train(model, ddp, None)
        summary = fabric.summary().to_dict()
        fabric.close()
        return plainly(lambda _: None), ours, summary


def test_shadow_is_plain_ddp_and_reports_the_predicted_gain():
    for plain, ours, summary in on_ranks(2, shadow_figures):
        assert ours.digests == plain.digests
        assert summary["mode"] == "shadow"
        assert summary["steps"] == STEPS
        assert summary["bytes"] == summary["dense_bytes"]
        assert 0 < summary["shadow_bytes"] < 0.5 * summary["dense_bytes"]
        assert summary["shadow_exposed_seconds"] > 0


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("link_gbps", [100, 1e6], ids=["fast link", "free link"])
def test_if_low_bits_do_not_pay_off_training_is_plain_ddp(ranks, link_gbps):
    # The link is set: on a loaded machine, the measured link may be so slow that low bits pay off. So may the
    # latency of the engine, which is always measured: hence three attempts.
    for _ in range(3):
        runs = on_ranks(ranks, both_ways, "plain", {}, link_gbps=link_gbps)
        if all(ours.bytes_ratio == 1.0 for _, ours in runs):
            break
    for _, ours in check(runs):
        assert ours.bytes_ratio == 1.0


MIXED = profile({"second": "waterfill:4", "rest": "fp32"})


def gradients(attach: Attach) -> dict[str, torch.Tensor]:
    model = make()
    ddp = wrap(model, bucket_cap_mb=25)
    fabric = attach(ddp)
    loss_of(ddp, next(batches())).backward()
    if fabric is not None:
        fabric.close()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def mixed_gradients() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    return gradients(lambda _: None), gradients(lambda ddp: nf.attach(ddp, MIXED, admit="safe"))


def test_dense_gradients_of_a_mixed_bucket_are_those_of_plain_ddp():
    for plain, ours in on_ranks(2, mixed_gradients):
        differing = [name for name in plain if not torch.equal(plain[name], ours[name])]
        assert differing == ["second.weight"]
        error = (plain["second.weight"] - ours["second.weight"]).norm()
        assert error < 0.3 * plain["second.weight"].norm()


def train_dense_parameters(attach: Attach) -> Run:
    """Low-bit parameters are not updated, so that they cannot affect the others."""
    model = make()
    ddp = wrap(model)
    run, fabric = Run(), attach(ddp)
    optimizer = torch.optim.SGD(
        [p for name, p in model.named_parameters() if name != "second.weight"], lr=0.05)
    for _, batch in zip(range(STEPS), batches()):
        model.zero_grad()
        loss_of(ddp, batch).backward()
        optimizer.step()
        run.digests.append(digest(model))
    return finish(run, fabric)


def mixed_training() -> tuple[Run, Run]:
    return (train_dense_parameters(lambda _: None),
            train_dense_parameters(lambda ddp: nf.attach(ddp, MIXED, admit="safe")))


def test_dense_parameters_next_to_low_bit_ones_train_as_under_plain_ddp():
    for plain, ours in on_ranks(2, mixed_training):
        assert ours.digests == plain.digests
        assert ours.bytes_ratio < 0.7


def detached() -> tuple[list[str], list[str], list[str]]:
    """Digests of plain DDP and of a fabric after detach(), from the same weights; the routes."""
    model = make()
    ddp = wrap(model)
    fabric = nf.attach(ddp, route="waterfill:4")
    records, data = Records(fabric), batches()
    for _ in range(5):
        loss_of(ddp, next(data)).backward()
    fabric.detach()
    copied, rest = copy.deepcopy(model), [next(data) for _ in range(10)]
    digests = []
    for net, wrapped in ((copied, wrap(copied)), (model, ddp)):
        optimizer, seen = sgd(net), []
        for batch in rest:
            optimizer.zero_grad()
            loss_of(wrapped, batch).backward()
            optimizer.step()
            seen.append(digest(net))
        digests.append(seen)
    routes = [step["regions"][0]["route"] for step in records.of("step")]
    fabric.close()
    return *digests, routes


def test_after_detach_training_is_plain_ddp():
    for plain, ours, routes in on_ranks(2, detached):
        assert ours == plain
        assert routes == ["waterfill:4"] * 5 + ["fp32"] * 10


def closed() -> str:
    ddp = wrap(make())
    fabric = nf.attach(ddp, route="fp32")
    loss_of(ddp, next(batches())).backward()
    fabric.close()
    fabric.close()
    with pytest.raises(RuntimeError) as caught:
        loss_of(ddp, next(batches())).backward()
    return str(caught.value)


def test_after_close_backward_raises_an_error_with_the_reason():
    for message in on_ranks(2, closed, fresh=True):
        assert "the fabric has been closed" in message
