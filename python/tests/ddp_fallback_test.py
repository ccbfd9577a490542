"""After a fault on one rank, all ranks fall back at the same step, for the same reason, and recover."""

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from neuron_fabric_lab.workloads import make_workload
from ranks import on_ranks
from small_job import ROUTES, Records, batches, digest, loss_of, make, profile, sgd, wrap

WARM_UP, COOL_DOWN, PROBATION = 12, 6, 5
DIGITS_STEPS = 200
FAULTS = (20, 40)  # steps; the second one exceeds most_fallbacks
HEALTH = {"warm_up_steps": WARM_UP, "cool_down_steps": COOL_DOWN, "probation_steps": PROBATION,
          "most_fallbacks": 1, "lock_out_window_steps": 1000}


class Fault:
    """Injects a fault on rank 1 in the given steps."""

    def __init__(self, kind: str, steps: tuple[int, ...] = FAULTS) -> None:
        self.kind, self.steps, self.step = kind, steps, -1

    @property
    def is_now(self) -> bool:
        return self.step in self.steps and dist.get_rank() == 1

    def corrupt_gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        if self.is_now and self.kind in ("nan", "inf"):
            gradient = gradient.clone()
            gradient[3, 5] = float(self.kind)
        if self.is_now and self.kind == "spikes":
            # All energy is in one of many values, which signs and one scale cannot represent.
            spiky = 1e-6 * gradient
            spiky[3, 5] = 3 * gradient.norm()
            gradient = spiky
        return gradient

    def observed(self, loss: float) -> float:
        factors = {"loss": 100.0, "nan_loss": float("nan")}
        return loss * factors.get(self.kind, 1.0) if self.is_now else loss


# The fault, its reason, the route, and the delay in steps: an observed loss is sent with the
# gradients of the next step.
KINDS = [("nan", "non_finite", "waterfill:5", 2), ("inf", "non_finite", "waterfill:5", 2),
         ("loss", "loss_spike", "waterfill:5", 3), ("nan_loss", "loss_spike", "waterfill:5", 3),
         ("spikes", "error_budget", "g_binary", 2), ("capacity", "capacity", "waterfill:5", 2)]


def decisions_of(region: str, records: Records) -> list[dict]:
    return [decision for decision in records.of("decision") if decision["region"] == region]


def faulty(kind: str, route: str, steps: int = 50) -> tuple[list[dict], list[dict], list[str]]:
    """Decisions, steps and digests of this rank."""
    fault = Fault(kind)
    model = make()
    model.second.weight.register_hook(fault.corrupt_gradient)
    ddp = wrap(model)
    rules = profile({"second": route, "rest": "fp32"}, health=HEALTH | {"error_budget": 0.6})
    fabric = nf.attach(ddp, rules, admit="safe")
    records, optimizer, digests = Records(fabric), sgd(model, rate=0.01), []
    for fault.step, batch in zip(range(steps), batches()):
        optimizer.zero_grad()
        if fault.is_now and kind == "capacity":
            fabric.report_capacity_breach()
        loss = loss_of(ddp, batch)
        loss.backward()
        fabric.observe(fault.observed(loss.item()))
        if fabric.should_step():
            optimizer.step()
        digests.append(digest(model))
    decisions, happened = decisions_of("second", records), records.of("step")
    fabric.close()
    return decisions, happened, digests


@pytest.mark.parametrize(("kind", "reason", "route", "delay"), KINDS)
def test_after_a_fault_on_one_rank_all_ranks_fall_back_recover_and_lock_out(kind, reason, route, delay):
    ranks = on_ranks(3, faulty, kind, route)
    first, last = (step + delay for step in FAULTS)
    probation = first + COOL_DOWN
    expected = [
        (WARM_UP, "warm_up", "admitted", route),
        (first, "admitted", reason, "fp32"),
        (first + 1, reason, "cool_down", "fp32"),
        (probation, "cool_down", "probation", route),
        (probation + PROBATION, "probation", "admitted", route),
        (last, "admitted", reason, "fp32"),
        (last + 1, reason, "locked_out", "fp32"),
    ]
    for decisions, steps, digests in ranks:
        actual = [(d["step"], d["from"], d["to"], d["route"]) for d in decisions]
        assert actual == expected
        assert [s["step"] for s in steps if s["should_step"] is False] == (
            list(FAULTS) if kind in ("nan", "inf") else [])
        assert digests == ranks[0][2]
        assert [s["epoch"] for s in steps] == [s["epoch"] for s in ranks[0][1]]


def sound_steps(route: str, kind: str) -> list[bool]:
    """Whether each step was sound; one value of rank 1 is non-finite in the third and the fifth."""
    fault = Fault(kind, (2, 4))
    model = make()
    model.second.weight.register_hook(fault.corrupt_gradient)
    ddp = wrap(model)
    fabric = nf.attach(ddp, route=route)
    optimizer, sound = sgd(model), []
    for fault.step, batch in zip(range(7), batches()):
        optimizer.zero_grad()
        loss_of(ddp, batch).backward()
        sound.append(fabric.should_step())
        # The reduced gradients must agree.
        assert sound[-1] == all(p.grad.isfinite().all() for p in model.parameters())
        if sound[-1]:
            optimizer.step()
    fabric.close()
    return sound


@pytest.mark.parametrize("kind", ["nan", "inf"])
@pytest.mark.parametrize("route", ["fp32", "waterfill:4", *ROUTES])
def test_a_non_finite_value_on_one_rank_reaches_all_ranks_on_every_route(route, kind):
    for sound in on_ranks(3, sound_steps, route, kind):
        assert sound == [True, True, False, True, False, True, True]


def over_capacity(lines_per_second: float) -> list[tuple[int, str]]:
    model = make()
    ddp = wrap(model)
    rules = profile({"second": "waterfill:5", "rest": "fp32"}, health=HEALTH,
                    reducer={"lines_per_second": lines_per_second})
    fabric = nf.attach(ddp, rules, admit="safe")
    records, optimizer = Records(fabric), sgd(model)
    for _, batch in zip(range(40), batches()):
        optimizer.zero_grad()
        loss_of(ddp, batch).backward()
        optimizer.step()
    decisions = [(d["step"], d["to"]) for d in decisions_of("second", records)]
    fabric.close()
    return decisions


def test_a_slow_reducer_disables_low_bits():
    first = WARM_UP + 2
    probation = first + 1 + COOL_DOWN  # the step in flight exceeded the capacity again
    for decisions in on_ranks(2, over_capacity, 1.0):
        assert decisions == [
            (WARM_UP, "admitted"), (first, "capacity"), (first + 1, "cool_down"),
            (probation, "probation"), (probation + 2, "capacity"), (probation + 3, "locked_out")]


def test_a_fast_reducer_does_not_disable_low_bits():
    for decisions in on_ranks(2, over_capacity, 1e12):
        assert decisions == [(WARM_UP, "admitted")]


def through_phases() -> tuple[list[str], list[tuple[int, str]]]:
    model = make()
    ddp = wrap(model)
    rules = profile({}, phases=[
        {"from_step": 0, "routes": {"second": "waterfill:5", "rest": "fp32"}},
        {"from_step": 17, "routes": {"second": "g_binary", "rest": "waterfill:3+ef"}}],
        health={"error_budget": 1.0})
    fabric = nf.attach(ddp, rules, admit="safe")
    records, optimizer = Records(fabric), sgd(model)
    for _, batch in zip(range(30), batches()):
        optimizer.zero_grad()
        loss_of(ddp, batch).backward()
        optimizer.step()
    routes = [tuple(region["route"] for region in s["regions"]) for s in records.of("step")]
    epochs = [s["epoch"] for s in records.of("step")]
    fabric.close()
    return routes, epochs


def test_a_training_phase_begins_at_its_step_on_all_ranks():
    for routes, epochs in on_ranks(4, through_phases):
        assert routes == [("waterfill:5", "fp32")] * 17 + [("g_binary", "waterfill:3+ef")] * 13
        assert epochs == [0] * 17 + [1] * 13


def with_another_scale(is_known: bool) -> list[tuple[int, str]]:
    """The loss scale suddenly grows by a factor of 1024."""
    model = make()
    ddp = wrap(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    rules = profile({"second": "waterfill:3+ef", "rest": "fp32"},
                    health=HEALTH | {"error_budget": 1.0})
    fabric = nf.attach(ddp, rules, admit="safe", scaler=scaler if is_known else None)
    records, optimizer = Records(fabric), sgd(model, rate=0.01)
    for step, batch in zip(range(30), batches()):
        optimizer.zero_grad()
        if step == 20:
            scaler.update(new_scale=16384.0)
        scaler.scale(loss_of(ddp, batch)).backward()
        scaler.step(optimizer)
        scaler.update()
    decisions = [(d["step"], d["to"]) for d in decisions_of("second", records)]
    fabric.close()
    return decisions


def test_a_change_of_the_loss_scale_is_no_norm_spike_if_attach_has_the_scaler():
    for decisions in on_ranks(2, with_another_scale, True):
        assert decisions == [(WARM_UP, "admitted")]
    for decisions in on_ranks(2, with_another_scale, False):
        assert decisions[:2] == [(WARM_UP, "admitted"), (22, "norm_spike")]


def learn_digits(faults: dict[str, tuple[int, ...]], guard: str) -> tuple[float, int]:
    """Accuracy and number of fallbacks. `guard` keeps non-finite gradients from the parameters."""
    workload = make_workload("digits", "tiny")
    model = workload.make_model(0)
    ddp = wrap(model)
    injected = [Fault(kind, steps) for kind, steps in faults.items()]
    for fault in injected:
        model.hidden.weight.register_hook(fault.corrupt_gradient)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if guard == "scaler" else None
    fabric = nf.attach(ddp, {
        "format": "neuron_fabric.profile", "version": 1, "name": "digits",
        "regions": [{"name": "head", "names": ["head.*"]}, {"name": "body"}],
        "phases": [{"from_step": 0, "routes": {"head": "fp32", "body": "waterfill:4"}}],
        "health": HEALTH | {"most_fallbacks": 10}}, admit="safe", scaler=scaler)
    optimizer = workload.make_optimizer(model)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: workload.rate(s, DIGITS_STEPS))
    data = workload.batches(dist.get_rank(), dist.get_world_size(), seed=0)
    for step, batch in zip(range(DIGITS_STEPS), data):
        for fault in injected:
            fault.step = step
        optimizer.zero_grad()
        loss = workload.loss(ddp, batch)
        (scaler.scale(loss) if scaler else loss).backward()
        fabric.observe(loss)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        elif guard == "none" or fabric.should_step():
            optimizer.step()
        rates.step()
    fallbacks = len(fabric.summary().fallbacks)
    fabric.close()
    return workload.evaluate(model).accuracy, fallbacks


@pytest.mark.parametrize("guard", ["should_step", "scaler"])
def test_training_with_faults_reaches_the_same_accuracy(guard):
    faults = {"nan": (30, 31, 80), "inf": (55,)}
    sound = on_ranks(2, learn_digits, {}, guard)
    faulty = on_ranks(2, learn_digits, faults, guard)
    assert len(set(sound)) == len(set(faulty)) == 1
    assert sound[0][1] == 0 and faulty[0][1] == 3
    assert sound[0][0] > 0.9
    assert abs(faulty[0][0] - sound[0][0]) < 0.02


def test_without_a_guard_the_faults_ruin_training():
    for accuracy, fallbacks in on_ranks(2, learn_digits, {"nan": (30,)}, "none"):
        assert accuracy < 0.2 and fallbacks > 0
