"""The state of a fabric on all ranks, in one dict or in one file per rank.

Error feedback keeps a residual per rank, so the state of rank 0 alone is not a checkpoint.

    state = gather_state(fabric)                  # every rank calls it
    if dist.get_rank() == 0:
        torch.save({"model": ..., "fabric": state}, path)
    ...
    scatter_state(fabric, torch.load(path)["fabric"])  # every rank, before the first step
"""

import io
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist

from neuron_fabric.fabric import Fabric
from neuron_fabric.files import whole_file
from neuron_fabric.meeting import wait_until_released

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FORMAT = "neuron_fabric.states"
_VERSION = 1
_FAILED = -1  # instead of a size
_REMEDY = "copy it to this host, or delete the files of all ranks to begin without them"


def gather_state(fabric: Fabric) -> dict[str, object] | None:
    """The states of all ranks on rank 0, None on the others. Every rank calls it after the same step.

    Rank 0 needs memory for all of them; save_state() needs none. If state_dict() fails on one rank,
    all ranks raise.
    """
    if fabric._session is None:  # NF_MODE is off
        return _gathered([fabric.state_dict()]) if dist.get_rank() == 0 else None
    group, rank = fabric._session.own_group, fabric._session.rank
    sizes, mine = _together(group, "gather_state()", lambda: _to_bytes(fabric.state_dict()))
    padded = torch.zeros(max(sizes), dtype=torch.uint8)
    padded[: mine.numel()] = mine
    everyone = [torch.empty_like(padded) for _ in sizes] if rank == 0 else []
    options = dist.GatherOptions()
    options.rootRank = 0
    group.gather([everyone] if rank == 0 else [], [padded], options).wait()
    wait_until_released(padded, *everyone)
    if rank != 0:
        return None
    return _gathered([_from_bytes(item[:size]) for item, size in zip(everyone, sizes, strict=True)])


def scatter_state(fabric: Fabric, gathered: dict[str, object]) -> None:
    """Loads this rank's part of what gather_state() returned, which every rank has. Call it on every
    rank, before the first step.

    If the number of ranks has changed, decisions carry over and error feedback begins anew.
    """
    if fabric._session is not None:
        fabric.load_state_dict(state_of_rank(gathered, fabric._session.rank, fabric._session.ranks))


def state_of_rank(gathered: dict[str, object], rank: int, ranks: int) -> dict[str, object]:
    """The one that fabric.load_state_dict() takes on this rank. With another number of ranks all of
    them take rank 0's, so that all ranks decide alike."""
    if not isinstance(gathered, dict) or gathered.get("format") != _FORMAT:
        raise ValueError("not a state of all ranks: gather_state() did not make it")
    if gathered.get("version") != _VERSION:
        raise ValueError(f"the state of all ranks has version {gathered.get('version')}, this build "
                         f"reads version {_VERSION}")
    states = gathered["states"]
    return states[rank if len(states) == ranks else 0]


def save_state(fabric: Fabric, folder: str | os.PathLike, name: str = "neuron_fabric") -> None:
    """Writes this rank's state to a file of its own in `folder`. Every rank calls it after the same
    step."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = _file_of(folder, name, dist.get_rank())
    if fabric._session is None:  # NF_MODE is off
        path.unlink(missing_ok=True)
        return
    with whole_file(path) as part:
        torch.save(fabric.state_dict(), part)
    for other in folder.glob(f"{name}_rank*.pt"):  # of a larger job that saved here before
        rank = other.stem.removeprefix(f"{name}_rank")
        if rank.isdecimal() and int(rank) >= dist.get_world_size():
            other.unlink(missing_ok=True)


def load_state(fabric: Fabric, folder: str | os.PathLike, name: str = "neuron_fabric") -> bool:
    """Loads what save_state() wrote; False if `folder` holds no state of any rank. Every rank calls it
    before the first step.

    If the number of ranks has changed, decisions carry over and error feedback begins anew.
    """
    if fabric._session is None:  # NF_MODE is off
        return False
    sizes, state = _together(fabric._session.own_group, "load_state()",
                             lambda: _find(Path(folder), name, fabric._session.ranks))
    if 0 in sizes:
        if any(sizes):
            raise FileNotFoundError(f"rank {sizes.index(0)} found no state in {folder}, other ranks "
                                    f"found theirs: {_REMEDY}")
        logger.warning("neuron_fabric: %s holds no state of a fabric: error feedback and admission "
                       "begin anew", folder)
        return False
    fabric.load_state_dict(state)
    return True


def _find(folder: Path, name: str, ranks: int) -> dict[str, object]:
    """What this rank is to load; empty if there is nothing of any rank."""
    if not any(folder.glob(f"{name}_rank*.pt")):
        return {}
    own, first = _file_of(folder, name, dist.get_rank()), _file_of(folder, name, 0)
    state = _read(own)
    if state.get("ranks") == ranks:
        return state
    state = _read(first)  # a job of another size saved it
    if not state:
        raise FileNotFoundError(f"{first} is missing, though {folder} holds states of other ranks: "
                                f"{_REMEDY}")
    if own != first and state.get("ranks") == ranks:
        raise FileNotFoundError(f"{own} is missing or of another job; it holds the error feedback of "
                                f"this rank: {_REMEDY}")
    return state


def _file_of(folder: Path, name: str, rank: int) -> Path:
    return folder / f"{name}_rank{rank}.pt"


def _read(path: Path) -> dict[str, object]:
    """Empty if there is no such file."""
    return torch.load(path, map_location="cpu", weights_only=True) if path.exists() else {}


def _gathered(states: list[dict[str, object]]) -> dict[str, object]:
    return {"format": _FORMAT, "version": _VERSION, "states": states}


def _to_bytes(state: dict[str, object]) -> torch.Tensor:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8)


def _from_bytes(data: torch.Tensor) -> dict[str, object]:
    return torch.load(io.BytesIO(data.numpy()), weights_only=True)  # loads no code from a peer


def _together(group: dist.ProcessGroup, what: str, work: Callable[[], T]) -> tuple[list[int], T]:
    """Runs `work` on every rank; returns the len() of all results, and this rank's result. If it
    fails on one rank, all ranks raise, so that none waits for it."""
    result, error = None, None
    try:
        result = work()
    except Exception as caught:  # every kind: the other ranks wait
        error = caught
    mine = torch.tensor([_FAILED if error else len(result)])
    everyone = [torch.empty_like(mine) for _ in range(group.size())]
    group.allgather([everyone], [mine]).wait()
    wait_until_released(mine, *everyone)
    sizes = [int(size) for size in everyone]
    if error is not None:
        raise error
    if _FAILED in sizes:
        raise RuntimeError(f"{what} failed on rank {sizes.index(_FAILED)}, whose own error has the "
                           "reason")
    return sizes, result
