"""FSDP2 at low bits: gradients are those of a dense run within the error of the codec, and all ranks make their
decisions together."""

import json
import math
import time
import weakref
from dataclasses import dataclass
from unittest import mock

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from fsdp_job import Mesh, Run, batches, digest, loss_of, make, shards_of, train, whole
from neuron_fabric.fsdp.backward import IN_FLIGHT
from neuron_fabric.fsdp.shards import LowBitReduceScatter
from ranks import on_ranks
from small_job import ROUTES, Records
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy

FSDP2, HSDP, LOW_BIT_HSDP, REPLICATE = Mesh(0, 4), Mesh(2, 2), Mesh(2, 2, "low_bit"), Mesh(2, 0)
BOTH = pytest.mark.parametrize("mesh", [FSDP2, HSDP], ids=str)
ALL = pytest.mark.parametrize("mesh", [FSDP2, HSDP, LOW_BIT_HSDP, REPLICATE], ids=str)


@dataclass
class Distance:
    """The distance of a gradient from that of FSDP alone; squares of norms."""

    apart: float
    norm: float

    @property
    def error(self) -> float:
        return math.sqrt(self.apart / self.norm)


def distances(mesh: Mesh, mode: str, attach: dict[str, object]) -> dict[str, Distance]:
    """By the name of the parameter."""
    def gradients(attach: dict[str, object] | None) -> dict[str, torch.Tensor]:
        model = make(mesh, mode)
        fabric = mesh.attach(model, **attach) if attach else None
        loss_of(model, next(batches())).backward()
        found = {name: one.grad.full_tensor().float() for name, one in model.named_parameters()
                 if one.grad is not None}
        if fabric is not None:
            fabric.close()
        return found

    exact, near = gradients(None), gradients(attach)
    return {name: Distance(float((near[name] - value).square().sum()), float(value.square().sum()))
            for name, value in exact.items()}


def error_of(found: dict[str, Distance]) -> float:
    return Distance(sum(one.apart for one in found.values()), sum(one.norm for one in found.values())).error


CASES = [(Mesh(0, 2), "plain", {}), (Mesh(0, 3), "plain", {}), (Mesh(0, 3), "shard_1", {}),
         *((FSDP2, mode, {}) for mode in ("plain", "shard_1", "tied", "frozen", "fp16_reduction", "bf16_reduction",
                                          "summed", "cpu_offload", "used_twice")),
         (FSDP2, "plain", {"topology": "ring"}), (FSDP2, "plain", {"topology": "hierarchical", "group_size": 2}),
         (FSDP2, "shard_1", {"topology": "hierarchical", "group_size": 2}), (HSDP, "plain", {}),
         (LOW_BIT_HSDP, "plain", {})]


@pytest.mark.parametrize(("mesh", "mode", "options"), CASES, ids=str)
def test_gradients_are_those_of_fsdp_alone_within_the_error_of_the_codec(mesh, mode, options):
    for found in on_ranks(mesh.ranks, distances, mesh, mode, {"route": "waterfill:8"} | options):
        assert 1e-4 < error_of(found) < 0.01
        for name, one in found.items():  # a small gradient shares its scales with larger ones
            assert one.error < 1, name


def mixed(routes: dict[str, str], **sections: object) -> dict:
    """A profile with the regions `ends`, the first layer and the last, and `rest`."""
    return {"format": "neuron_fabric.profile", "version": 1, "name": "mixed", "smallest_parameter": 0,
            "regions": [{"name": "ends", "names": ["embed.*", "head.*"]}, {"name": "rest"}],
            "phases": [{"from_step": 0, "routes": routes}], "health": {"warm_up_steps": 0}} | sections


def test_dense_parameters_share_a_bucket_with_others():
    profile = mixed({"ends": "fp32", "rest": "waterfill:4"})
    for found in on_ranks(4, distances, FSDP2, "plain", {"profile": profile, "admit": "safe"}):
        ends = {name: one for name, one in found.items() if name.startswith(("embed", "head"))}
        assert error_of(ends) < 1e-6
        assert 1e-3 < error_of({name: one for name, one in found.items() if name not in ends}) < 0.2


def all_routes(steps: int) -> dict[str, Run]:
    routes = ["fp32", *(route for route in ROUTES if not route.startswith("powersgd"))]
    return {route: train(FSDP2, steps, attach={"route": route}, digested=whole) for route in routes}


def test_every_route_but_powersgd_trains():
    results = on_ranks(4, all_routes, 3)
    for route, run in results[0].items():
        assert all(run.digests == other[route].digests for other in results)
        assert run.steps == 3
        assert len(set(run.digests)) == 3
        if route != "fp32":
            assert run.digests != results[0]["fp32"].digests
            assert run.summary["bytes"] < 0.6 * run.summary["dense_bytes"]


def test_all_ranks_gather_the_same_parameters_after_every_step():
    steps = 50
    results = on_ranks(3, train, Mesh(0, 3), steps, attach={"route": "waterfill:4"}, digested=whole)
    for run in results:
        assert run.digests == results[0].digests
        assert len(set(run.digests)) == steps


@BOTH
def test_low_bits_train_as_well_as_full_precision(mesh):
    """The distance to the parameters of a dense run stays small against what the run has moved them."""
    dense = on_ranks(4, train, mesh, 20, attach={"route": "fp32"})
    low = on_ranks(4, train, mesh, 20, attach={"route": "waterfill:8"})
    for exact, near in zip(dense, low, strict=True):
        apart = sum(float((a - b).square().sum()) for a, b in zip(exact.last, near.last, strict=True))
        moved = sum(float((a - b).square().sum()) for a, b in zip(exact.last, exact.first, strict=True))
        assert 0 < apart < 0.1 * moved


def test_records_name_the_source_and_the_collective(tmp_path):
    results = on_ranks(4, train, FSDP2, 3, attach={"route": "waterfill:4", "run_dir": str(tmp_path)})
    [file] = tmp_path.glob("*.jsonl")
    attach = json.loads(file.read_text().splitlines()[0])
    assert (attach["source"], attach["collective"], attach["ranks"]) == ("fsdp2", "reduce_scatter", 4)
    for run in results:
        assert run.summary["bytes"] < 0.3 * run.summary["dense_bytes"]


@BOTH
def test_two_deterministic_runs_have_the_same_bits(mesh):
    profile = mixed({"ends": "fp32", "rest": "waterfill:3+ef"}, health={"warm_up_steps": 2, "error_budget": 1.0})
    options = {"profile": profile, "deterministic": True}
    first, second = (on_ranks(4, train, mesh, 6, attach=options) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert one.digests == other.digests
        assert one.summary["bytes"] < one.summary["dense_bytes"]


def with_nan(mesh: Mesh, route: str) -> list[bool]:
    """Whether each step was sound. In the second one, the gradient of one value of one rank is NaN."""
    model = make(mesh)
    fabric = mesh.attach(model, route=route)
    known = []
    for step in range(3):
        model.is_poisoned = step == 1 and dist.get_rank() == mesh.ranks - 1
        loss_of(model, next(batches())).backward()
        known.append(fabric.should_step())
        model.zero_grad()
    fabric.close()
    return known


@ALL
@pytest.mark.parametrize("route", ["fp32", "waterfill:4"])
def test_all_ranks_learn_of_a_nan_on_one_rank(mesh, route):
    assert on_ranks(mesh.ranks, with_nan, mesh, route) == mesh.ranks * [[True, False, True]]


def poison(layer: nn.Linear) -> None:
    """The gradient of one of its values is NaN."""
    def forward(module: nn.Linear, _inputs: object, output: torch.Tensor) -> torch.Tensor:
        value = module.weight[0, :1] * 1
        value.register_hook(lambda gradient: gradient * float("nan"))
        return output + value

    layer.register_forward_hook(forward)


def with_nan_in_unfrozen_parameters(meshes: list[Mesh]) -> list[tuple[list[bool], list[str]]]:
    """Whether each step was sound, and the warnings. The parameters are frozen at attach(), unfrozen from the second
    step on, and have a NaN on the last rank in the third one."""
    results = []
    for mesh in meshes:
        model = make(mesh, "unfrozen")
        with mesh.attach(model, route="waterfill:4") as fabric:
            records, known = Records(fabric), []
            for step in range(3):
                model.blocks[0].requires_grad_(step > 0)
                if step == 2 and dist.get_rank() == mesh.ranks - 1:
                    poison(model.blocks[0][0])
                loss_of(model, next(batches())).backward()
                known.append(fabric.should_step())
                model.zero_grad()
            results.append((known, [one["text"] for one in records.of("notice") if one["level"] == "warning"]))
    return results


def test_gradients_of_parameters_that_were_frozen_at_attach_are_examined():
    for results in on_ranks(2, with_nan_in_unfrozen_parameters, [Mesh(0, 2), REPLICATE]):
        for known, warnings in results:
            assert known == [True, True, False]
            [warning] = warnings
            assert warning.startswith("from now on, the gradients of a parameter group are reduced in full precision "
                                      "and not monitored: blocks.0.0.weight has a gradient, but required none at "
                                      "attach()")


def in_flight() -> tuple[int, int]:
    """The number of unsharded gradients that are alive after a reduction: the highest one, and with reductions that
    FSDP reads at once."""
    def most_of(**options: object) -> int:
        buffers, most = [], 0
        original = LowBitReduceScatter.__call__

        def call(self: LowBitReduceScatter, output_tensor: torch.Tensor, input_tensor: torch.Tensor,
                 *arguments: object, **more: object) -> None:
            nonlocal most
            original(self, output_tensor, input_tensor, *arguments, **more)
            buffers.append(weakref.ref(input_tensor))
            deadline = time.monotonic() + 5  # the runtime releases a buffer shortly after its future is complete
            while (alive := sum(one() is not None for one in buffers)) > IN_FLIGHT and time.monotonic() < deadline:
                time.sleep(0.001)
            most = max(most, alive)

        model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(IN_FLIGHT + 4)))
        for part in (*model, model):
            Mesh(0, 2).wrapper(**options)(part)
        with mock.patch.object(LowBitReduceScatter, "__call__", call), nf.attach(model, route="waterfill:4"):
            model(torch.ones(4, 64)).sum().backward()
        return most

    return most_of(), most_of(mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.bfloat16))


def test_a_bounded_number_of_reductions_overlaps_with_backward():
    assert on_ranks(2, in_flight) == 2 * [(IN_FLIGHT, 1)]


WARM_UP, FAULT = 12, 20


# The delay in steps: an observed loss is sent with the gradients of the next step.
FAULTS = {"non_finite": 2, "loss_spike": 3, "capacity": 2}


def falls_back(mesh: Mesh, steps: int) -> dict[str, list[tuple[int, str, str]]]:
    """Step, route and reason of every decision, by the fault of the last rank."""
    return {fault: decisions_after(fault, mesh, steps) for fault in FAULTS}


def decisions_after(fault: str, mesh: Mesh, steps: int) -> list[tuple[int, str, str]]:
    model = make(mesh)
    profile = mixed({"all": "waterfill:5"}, regions=[{"name": "all"}], health={
        "warm_up_steps": WARM_UP, "cool_down_steps": 50, "error_budget": 1.0})
    fabric = mesh.attach(model, profile=profile, admit="safe")
    records = Records(fabric)
    for step, batch in zip(range(steps), batches()):
        is_now = step == FAULT and dist.get_rank() == mesh.ranks - 1
        model.is_poisoned = is_now and fault == "non_finite"
        if is_now and fault == "capacity":
            fabric.report_capacity_breach()
        loss = loss_of(model, batch)
        loss.backward()
        fabric.observe(loss * (100 if is_now and fault == "loss_spike" else 1))
        model.zero_grad()
    decisions = [(one["step"], one["route"], one["to"]) for one in records.of("decision")]
    fabric.close()
    return decisions


@pytest.mark.parametrize("mesh", [Mesh(0, 2), HSDP, REPLICATE], ids=str)
def test_all_ranks_fall_back_at_the_same_step(mesh):
    """With replicas, each shard has a job of its own, and only one of them has the fault: the NaN is in the first
    shard, and the last rank has the last one."""
    for rank, decisions in enumerate(on_ranks(mesh.ranks, falls_back, mesh, FAULT + 5)):
        for fault, delay in FAULTS.items():
            fallen = [(FAULT + delay, "fp32", fault), (FAULT + delay + 1, "fp32", "cool_down")]
            shard = 0 if fault == "non_finite" else mesh.shards - 1
            is_affected = mesh.source != "hsdp" or rank % mesh.shards == shard
            assert decisions[fault] == [(WARM_UP, "waterfill:5", "admitted"), *(fallen if is_affected else [])]


def resumed(mesh: Mesh, split: int, steps: int, route: str) -> tuple[str, str]:
    """The shards of an uninterrupted run, and of a run that continues from a state saved at step `split`."""
    def run(model: nn.Module, first: int, last: int) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(first, last):
            loss_of(model, next(batches(step))).backward()
            optimizer.step()
            optimizer.zero_grad()

    uninterrupted, before, after = make(mesh), make(mesh), make(mesh)
    with mesh.attach(uninterrupted, route=route):
        run(uninterrupted, 0, steps)
    with mesh.attach(before, route=route) as fabric:
        run(before, 0, split)
        state = fabric.state_dict()
    after.load_state_dict(before.state_dict())
    with mesh.attach(after, route=route) as fabric:
        fabric.load_state_dict(state)
        run(after, split, steps)
    return digest(shards_of(uninterrupted)), digest(shards_of(after))


@ALL
@pytest.mark.parametrize("route", ["waterfill:4", "waterfill:3+ef"])
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_run(mesh, route):
    for uninterrupted, continued in on_ranks(mesh.ranks, resumed, mesh, 3, 7, route):
        assert uninterrupted == continued
