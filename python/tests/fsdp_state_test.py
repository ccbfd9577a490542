"""The state of sharded models in a file per rank: what does not fit the job that loads it is reset and reported."""

import warnings
from pathlib import Path
from unittest import mock

import neuron_fabric as nf
import pytest
import torch
from fsdp_job import Mesh, batches, loss_of, make
from neuron_fabric.integrations.state import gather_state, load_state, save_state
from neuron_fabric.model import ModelParameters
from ranks import on_ranks
from torch import nn

ROUTE = {"route": "waterfill:3+ef"}


def step(model: nn.Module) -> None:
    loss_of(model, next(batches())).backward()


def save(mesh: Mesh, folder: Path) -> str:
    """The error of gather_state(), which has no place for several jobs."""
    with mesh.attach(model := make(mesh), **ROUTE) as fabric:
        step(model)
        save_state(fabric, folder)
        with pytest.raises(ValueError) as caught:  # noqa: PT011  the caller compares the text
            gather_state(fabric)
    return str(caught.value)


def load(mesh: Mesh, folder: Path) -> tuple[list[int], list[int], list[str]]:
    """Steps and numbers of residuals of the fabric and of the one within, and the warnings."""
    with (mesh.attach(model := make(mesh), **ROUTE) as fabric, warnings.catch_warnings(record=True) as caught):
        warnings.simplefilter("always", UserWarning)
        assert load_state(fabric, folder)
        fabrics = [one for one in (fabric, fabric.within) if one is not None]
        steps, residuals = [one.step for one in fabrics], [len(one.state_dict()["memory"]) for one in fabrics]
        step(model)
    return steps, residuals, [str(one.message) for one in caught if "neuron_fabric" in str(one.message)]


def test_another_mesh_resets_error_feedback_between_and_within_replicas(tmp_path):
    """The shards of the second rank are smaller than those of the first, whose file all ranks read."""
    for message in on_ranks(4, save, Mesh(2, 2, "low_bit"), tmp_path):
        assert message.startswith("gather_state() gathers the states of one job, and hsdp on 2 replicas of 2 shards "
                                  "has 2 jobs")
    for steps, residuals, warned in on_ranks(2, load, Mesh(1, 2, "low_bit"), tmp_path):
        assert steps == [1, 1]
        assert residuals == [0, 0]
        assert len(warned) == 2
        assert "this job is hsdp on 1 replica of 2 shards: the error feedback of " in warned[0]
        assert "this job is hsdp within 1 replica of 2 shards: the error feedback of " in warned[1]


def between_collectives() -> list[tuple[str, int, int]]:
    """The warning, and the numbers of saved and of loaded residuals, in both directions."""
    results = []
    for before, after in ((Mesh(0, 2), Mesh(2, 0)), (Mesh(2, 0), Mesh(0, 2))):
        with before.attach(model := make(before), **ROUTE) as fabric:
            step(model)
            state = fabric.state_dict()
        with after.attach(model := make(after), **ROUTE) as fabric, pytest.warns(UserWarning) as caught:
            fabric.load_state_dict(state)
            assert fabric.step == 1
            results.append((str(caught[-1].message), len(state["memory"]), len(fabric.state_dict()["memory"])))
    return results


def test_the_error_feedback_of_another_collective_is_reset():
    """The residuals of a reduce-scatter belong to shards, those of an all-reduce to whole parameters."""
    sources = ("fsdp2", "replicate")
    for results in on_ranks(2, between_collectives):
        for (before, after), (message, saved, loaded) in zip((sources, sources[::-1]), results, strict=True):
            assert message.endswith(f"the state is from {before} on 2 ranks and this job is {after} on 2 ranks: the "
                                    f"error feedback of {saved} tensors is reset")
            assert saved > 0
            assert loaded == 0


def test_reports_and_close_reach_the_fabric_within_replicas():
    outer, inner = mock.Mock(), mock.Mock()
    parameters = ModelParameters([], [], [torch.empty(1)])
    fabric = nf.Fabric(outer, parameters, within=nf.Fabric(inner, parameters))
    fabric.report_capacity_breach()
    assert inner.runtime.report_capacity_breach.called
    outer.close.side_effect = RuntimeError("closing fails")
    with pytest.raises(RuntimeError, match="closing fails"):
        fabric.close()
    assert inner.close.called
