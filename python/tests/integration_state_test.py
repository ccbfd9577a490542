"""The state of all ranks in one dict or in one file per rank: every rank gets its own residuals back."""

import os
import warnings
from pathlib import Path

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from integrations import residuals
from neuron_fabric.integrations.state import gather_state, load_state, save_state, scatter_state
from ranks import on_ranks
from small_job import batches, loss_of, make, sgd, wrap

STEPS = 4


def attached() -> tuple[torch.nn.Module, nf.Fabric]:
    ddp = wrap(make())
    return ddp, nf.attach(ddp, route="waterfill:3+ef")


def trained() -> nf.Fabric:
    ddp, fabric = attached()
    optimizer = sgd(ddp)
    for _, batch in zip(range(STEPS), batches(), strict=False):
        optimizer.zero_grad()
        loss_of(ddp, batch).backward()
        optimizer.step()
    return fabric


def save(folder: Path, form: str) -> list:
    fabric = trained()
    if form == "files":
        save_state(fabric, folder)
    else:
        state = gather_state(fabric)
        assert (state is not None) == (dist.get_rank() == 0)
        if state is not None:
            torch.save({"fabric": state}, folder / "all.pt")
        dist.barrier()
    fabric.close()
    return residuals(fabric)


def load(folder: Path, form: str) -> tuple[int, list, list[str]]:
    _, fabric = attached()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if form == "files":
            assert load_state(fabric, folder)
        else:
            scatter_state(fabric, torch.load(folder / "all.pt", weights_only=True)["fabric"])
    fabric.close()
    return fabric.step, residuals(fabric), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("form", ["one dict", "files"])
def test_every_rank_gets_its_own_residuals_back(tmp_path, form):
    saved = on_ranks(2, save, tmp_path, form)
    assert saved[0] and saved[0] != saved[1]
    for (step, loaded, warned), expected in zip(on_ranks(2, load, tmp_path, form), saved, strict=True):
        assert step == STEPS
        assert loaded == expected
        assert warned == []


@pytest.mark.parametrize("form", ["one dict", "files"])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_with_another_number_of_ranks_only_residuals_are_reset(tmp_path, form, before, after):
    on_ranks(before, save, tmp_path, form)
    for step, loaded, warned in on_ranks(after, load, tmp_path, form):
        assert step == STEPS
        assert loaded == []
        assert len(warned) == 1
        assert f"is from ddp on {before} ranks and this job is ddp on {after} ranks" in warned[0]


def test_a_smaller_job_that_saves_to_the_same_folder_leaves_no_old_files(tmp_path):
    on_ranks(3, save, tmp_path, "files")
    on_ranks(2, save, tmp_path, "files")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["neuron_fabric_rank0.pt",
                                                                "neuron_fabric_rank1.pt"]


def fail_to_load(folder: Path) -> str:
    _, fabric = attached()
    try:
        load_state(fabric, folder)
        return ""
    except (FileNotFoundError, RuntimeError) as error:
        return str(error)
    finally:
        fabric.close()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_file_is_named(tmp_path, lost):
    on_ranks(2, save, tmp_path, "files")
    (tmp_path / f"neuron_fabric_rank{lost}.pt").unlink()
    errors = on_ranks(2, fail_to_load, tmp_path)
    assert f"neuron_fabric_rank{lost}.pt is missing" in errors[lost]
    assert "delete the files of all ranks to start without them" in errors[lost]
    assert errors[1 - lost] == f"load_state() failed on rank {lost}: {errors[lost]}"


def load_other_folders(folder: Path) -> str:
    return fail_to_load(folder / str(dist.get_rank()))


def test_a_rank_on_a_host_without_the_checkpoint_is_named(tmp_path):
    on_ranks(2, save, tmp_path / "0", "files")
    for message in on_ranks(2, load_other_folders, tmp_path):
        assert "rank 1 found no state in " in message


def load_nothing(folder: Path) -> tuple[bool, int]:
    _, fabric = attached()
    loaded = load_state(fabric, folder)
    fabric.close()
    return loaded, fabric.step


def test_a_checkpoint_without_states_starts_anew(tmp_path):
    assert on_ranks(2, load_nothing, tmp_path) == [(False, 0)] * 2


def fail_to_gather() -> str:
    fabric = trained()
    if dist.get_rank() == 1:
        fabric.state_dict = lambda: 1 / 0
    try:
        gather_state(fabric)
    except (RuntimeError, ZeroDivisionError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        fabric.close()
    return "gathered"


def test_if_one_rank_has_no_state_all_ranks_raise():
    errors = on_ranks(2, fail_to_gather)
    assert errors[1].startswith("ZeroDivisionError: ")
    reason = errors[1].removeprefix("ZeroDivisionError: ")
    assert errors[0] == f"AttachError: gather_state() failed on rank 1: {reason}"


def save_and_load_while_off(folder: Path) -> list[str]:
    os.environ["NF_MODE"] = "off"
    try:
        _, fabric = attached()
        state = [gather_state(fabric)]
        dist.broadcast_object_list(state)
        save_state(fabric, folder)
        scatter_state(fabric, state[0])
        assert not load_state(fabric, folder)
    finally:
        del os.environ["NF_MODE"]
    _, on = attached()
    scatter_state(on, state[0])
    on.close()
    assert on.step == 0
    return [path.name for path in folder.iterdir()]


def test_a_disabled_fabric_has_a_state_that_loads(tmp_path):
    assert on_ranks(2, save_and_load_while_off, tmp_path, fresh=True) == [[], []]


def fail_to_scatter(state: object) -> str:
    _, fabric = attached()
    with pytest.raises(ValueError) as caught:
        scatter_state(fabric, state)
    fabric.close()
    return str(caught.value)


@pytest.mark.parametrize(("state", "words"), [
    ({"format": "neuron_fabric.state"}, "not a state of all ranks: it does not come from gather_state()"),
    ({"format": "neuron_fabric.states", "version": 9}, "has version 9, this build reads version 1"),
])
def test_another_state_is_rejected(state, words):
    for message in on_ranks(2, fail_to_scatter, state):
        assert words in message
