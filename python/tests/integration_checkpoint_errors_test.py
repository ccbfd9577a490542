"""Checkpoints of torch.distributed.checkpoint without a Fabric state, with parts of one, or with one that
cannot be loaded."""

import json
import os
from pathlib import Path

import neuron_fabric as nf
import pytest
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from checkpoint_job import DDP, HSDP, OPTIONS, STOP, build, contents, load, save, train, weights
from neuron_fabric.integrations.checkpoint import FabricState
from ranks import on_ranks
from small_job import CLASSES, FEATURES, make, wrap
from torch import nn


def save_one_replica(folder: Path) -> None:
    model = build(HSDP)
    first = dist.new_group([0, 1])
    with nf.attach(model, **OPTIONS) as fabric:
        train(model, fabric, 0, STOP)
        if dist.get_rank() < 2:
            state = {"model": weights(model), "fabric": FabricState(fabric)}
            dcp.save(state, checkpoint_id=folder, process_group=first)


def test_a_checkpoint_of_one_replica_resets_error_feedback_on_all_ranks(tmp_path):
    on_ranks(4, save_one_replica, tmp_path)
    for result in on_ranks(4, load, HSDP, tmp_path):
        [(state, residuals)] = result["contents"]
        assert state["step"] == STOP
        assert residuals == []
        assert "the checkpoint does not have the states of all ranks" in result["notice"]


def round_trip(save_with: dict, load_with: dict, folder: Path) -> tuple[int, bool]:
    """Step and residuals after a checkpoint of 2 steps is loaded."""
    model = build(DDP)
    with nf.attach(model, route="waterfill:3+ef") as fabric:
        train(model, fabric, 0, 2)
        saved = contents(fabric)
        dcp.save({"fabric": FabricState(fabric)}, checkpoint_id=folder, **save_with)
    with nf.attach(build(DDP), route="waterfill:3+ef") as fabric:
        dcp.load({"fabric": FabricState(fabric, folder)}, checkpoint_id=folder, **load_with)
        return fabric.step, contents(fabric) == saved


def in_own_folder(folder: Path) -> tuple[int, bool]:
    own = folder / str(dist.get_rank())
    return round_trip({"no_dist": True}, {"no_dist": True}, own)


def test_a_checkpoint_per_rank_without_communication(tmp_path):
    assert on_ranks(2, in_own_folder, tmp_path) == [(2, True)] * 2


def without_a_state(folder: Path) -> list[tuple[int, str]]:
    """Step and the last warning after loading a checkpoint without a state, and one of the first step."""
    results = []
    for name in ("none", "off", "new"):
        model = build(DDP)
        if name == "off":
            os.environ["NF_MODE"] = "off"
        fabric = nf.attach(model, **OPTIONS)
        state = {"model": weights(model), "fabric": FabricState(fabric, folder / name)}
        dcp.save({"model": state["model"]} if name == "none" else state, checkpoint_id=folder / name)
        if name == "off":
            dcp.load(state, checkpoint_id=folder / name)
            del os.environ["NF_MODE"]
            fabric = nf.attach(build(DDP), **OPTIONS)
            state["fabric"] = FabricState(fabric, folder / name)
        dcp.load(state, checkpoint_id=folder / name)
        results.append((fabric.step, fabric.summary().last_warning))
        fabric.close()
    return results


def test_a_checkpoint_without_a_state_starts_from_zero(tmp_path):
    nothing = (0, "the checkpoint has no Fabric state: error feedback and admission start from zero")
    assert on_ranks(2, without_a_state, tmp_path) == [[nothing, nothing, (0, "")]] * 2


def two_fabrics(folder: Path) -> list[int]:
    """The steps of both fabrics after loading."""
    state = {}
    for key, steps in (("generator", 1), ("critic", 2)):
        model = build(DDP)
        with nf.attach(model, **OPTIONS) as fabric:
            train(model, fabric, 0, steps)
            state[key] = FabricState(fabric).state_dict()
    dcp.save(state, checkpoint_id=folder)
    with nf.attach(build(DDP), **OPTIONS) as one, nf.attach(build(DDP), **OPTIONS) as other:
        dcp.load({"generator": FabricState(one, folder, key="generator"),
                  "critic": FabricState(other, folder, key="critic")}, checkpoint_id=folder)
        return [one.step, other.step]


def test_each_of_two_fabrics_in_a_checkpoint_loads_its_own_state(tmp_path):
    assert on_ranks(2, two_fabrics, tmp_path) == [[1, 2]] * 2


def load_while_off(folder: Path) -> None:
    os.environ["NF_MODE"] = "off"
    try:
        fabric = nf.attach(build(DDP))
        state = FabricState(fabric, folder)
        dcp.load({"fabric": state}, checkpoint_id=folder)
        assert state.state_dict() == {}
    finally:
        del os.environ["NF_MODE"]


def test_a_disabled_fabric_loads_nothing(tmp_path):
    on_ranks(2, save, DDP, tmp_path)
    on_ranks(2, load_while_off, tmp_path)


class Other(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(FEATURES, CLASSES))


def fail_to_load(case: str, folder: Path, tmp_path: Path) -> tuple[str, int]:
    """The message of the exception, and the step afterwards."""
    options: dict[str, object] = {"checkpoint_id": folder}
    model = wrap(Other()) if case == "model" else build(DDP)
    if case == "reducer":
        fabric = nf.Reducer(make(), OPTIONS["profile"], admit="safe").fabric
    else:
        fabric = nf.attach(model, **({"route": "waterfill:4"} if case in ("model", "profile") else OPTIONS))
    if case == "late":
        train(model, fabric, 0, 1)
    elif case == "no checkpoint_id":
        options = {}
    elif case == "one rank" and dist.get_rank() == 1:
        fabric.check = lambda state: 1 / 0
    elif case in ("version", "format", "several"):
        about = json.dumps({"format": "neuron_fabric.checkpoint" if case != "format" else "x", "version": 9})
        options["checkpoint_id"] = folder = tmp_path / case
        entry = {"neuron_fabric": about}
        dcp.save({"fabric": entry} | ({"other": entry} if case == "several" else {}), checkpoint_id=folder)
    step = fabric.step
    with fabric, pytest.raises((ValueError, RuntimeError, ZeroDivisionError)) as caught:
        dcp.load({"fabric": FabricState(fabric, **options)}, checkpoint_id=folder)
    assert fabric.step == step
    return str(caught.value)


def fail_in_all_cases(cases: list[str], folder: Path, tmp_path: Path) -> list[str]:
    return [fail_to_load(case, folder, tmp_path) for case in cases]


FAILURES = {
    "model": "the state is from another model: it contains first.bias, which this model does not have",
    "profile": "the state was saved with another profile; attach with that profile, or do not load it",
    "reducer": "the state is from ddp on 2 ranks and this job is reducer on 2 ranks: load it into the same "
               "source, or call dcp.load() without the FabricState",
    "late": "the fabric has already run 1 steps; load the state into a new one",
    "no checkpoint_id": f"the checkpoint has a Fabric state of step {STOP}, but dcp.load() did not read it: "
                        "pass the checkpoint to FabricState(fabric, checkpoint_id=...) too",
    "version": "the Fabric state of the checkpoint has version 9, this build reads version 1",
    "format": "the checkpoint has no Fabric state, but another one with the same key",
    "several": "the checkpoint has several Fabric states (fabric, other); pass the key of this one: "
               "FabricState(..., key=...)",
    "one rank": "division by zero",
}


def test_a_state_that_cannot_be_loaded_is_rejected_on_all_ranks(tmp_path):
    folder = tmp_path / "saved"
    on_ranks(2, save, DDP, folder)
    first, second = on_ranks(2, fail_in_all_cases, list(FAILURES), folder, tmp_path)
    for case, words, one, other in zip(FAILURES, FAILURES.values(), first, second, strict=True):
        assert words in one, case
        assert words in other, case
    assert first[-1] == "dcp.load() failed on rank 1: division by zero"
