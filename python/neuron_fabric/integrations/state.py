"""The Fabric state of all ranks, in one dict or in one file per rank.

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
from neuron_fabric.ranks.rendezvous import gather_all, wait_until_released
from neuron_fabric.support.files import atomic_file

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FORMAT = "neuron_fabric.states"
_VERSION = 1

_REMEDY = "copy it to this host, or delete the files of all ranks to start without them"


def gather_state(fabric: Fabric) -> dict[str, object] | None:
    """Returns the states of all ranks on rank 0, None on the others. Every rank calls it after the same
    step.

    Rank 0 needs memory for the states of all ranks; with save_state() it does not. If state_dict()
    fails on one rank, all ranks raise. HSDP, which has a job per shard, needs save_state() or FabricState.
    """
    if fabric._session is None:  # NF_MODE is off
        return _gathered([fabric.state_dict()]) if dist.get_rank() == 0 else None
    if fabric.jobs.count > 1:
        raise ValueError(f"gather_state() gathers the states of one job, and {fabric.jobs} has {fabric.jobs.count} "
                         "jobs: use save_state(), or FabricState of neuron_fabric.integrations.checkpoint")
    group, rank = fabric._session.own_group, fabric._session.rank
    sizes, mine = _with_sizes(fabric, "gather_state()", lambda: _to_bytes(fabric.state_dict()))
    padded = torch.zeros(max(sizes), dtype=torch.uint8)
    padded[: mine.numel()] = mine
    gathered = [torch.empty_like(padded) for _ in sizes] if rank == 0 else []
    options = dist.GatherOptions()
    options.rootRank = 0
    group.gather([gathered] if rank == 0 else [], [padded], options).wait()
    wait_until_released(padded, *gathered)
    if rank != 0:
        return None
    return _gathered([_from_bytes(item[:size]) for item, size in zip(gathered, sizes, strict=True)])


def scatter_state(fabric: Fabric, gathered: dict[str, object]) -> None:
    """Loads this rank's part of the dict that gather_state() returned. Every rank calls it with the
    whole dict, before the first step.

    If the number of ranks has changed, decisions are kept and error feedback starts from zero.
    """
    if fabric._session is not None:
        fabric.load_state_dict(state_of_rank(gathered, fabric._session.rank, fabric._session.ranks))


def state_of_rank(gathered: dict[str, object], rank: int, ranks: int) -> dict[str, object]:
    """The state for fabric.load_state_dict() on this rank. If the number of ranks has changed, all ranks
    load rank 0's state, so that all ranks make the same decisions."""
    if not isinstance(gathered, dict) or gathered.get("format") != _FORMAT:
        raise ValueError("not a state of all ranks: it does not come from gather_state()")
    if gathered.get("version") != _VERSION:
        raise ValueError(f"the state of all ranks has version {gathered.get('version')}, this build "
                         f"reads version {_VERSION}")
    states = gathered["states"]
    return states[rank if len(states) == ranks else 0]


def save_state(fabric: Fabric, folder: str | os.PathLike, name: str = "neuron_fabric") -> None:
    """Writes this rank's state to a separate file in `folder`. Every rank calls it after the same
    step."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = _file_of(folder, name, dist.get_rank())
    if fabric._session is None:  # NF_MODE is off
        path.unlink(missing_ok=True)
        return
    with atomic_file(path) as part:
        torch.save(fabric.state_dict(), part)
    for other in folder.glob(f"{name}_rank*.pt"):  # left by an earlier job with more ranks
        rank = other.stem.removeprefix(f"{name}_rank")
        if rank.isdecimal() and int(rank) >= dist.get_world_size():
            other.unlink(missing_ok=True)


def load_state(fabric: Fabric, folder: str | os.PathLike, name: str = "neuron_fabric") -> bool:
    """Loads the state that save_state() wrote. Returns False if `folder` has no state of any rank.
    Every rank calls it before the first step.

    If the number of ranks or the mesh has changed, decisions are kept and error feedback starts from zero.
    """
    if fabric._session is None:  # NF_MODE is off
        return False
    sizes, state = _with_sizes(fabric, "load_state()", lambda: _find(Path(folder), name, fabric))
    if 0 in sizes:
        if any(sizes):
            who = f"rank {sizes.index(0)}" if fabric.jobs.count == 1 else "a rank"
            raise FileNotFoundError(f"{who} found no state in {folder}, but other ranks did: {_REMEDY}")
        logger.warning("neuron_fabric: %s has no Fabric state: error feedback and admission start "
                       "from zero", folder)
        return False
    fabric.on_all_ranks(lambda: fabric.load_state_dict(state), "load_state()")
    return True


def _find(folder: Path, name: str, fabric: Fabric) -> dict[str, object]:
    """The state that this rank loads; empty if there is no state of any rank."""
    if not any(folder.glob(f"{name}_rank*.pt")):
        return {}
    own, first = _file_of(folder, name, dist.get_rank()), _file_of(folder, name, 0)
    state = _read(own)
    if state and fabric.difference(state) is None:
        return state
    state = _read(first)  # other jobs saved it
    if not state:
        raise FileNotFoundError(f"{first} is missing, but {folder} has states of other ranks: "
                                f"{_REMEDY}")
    if own != first and fabric.difference(state) is None:
        raise FileNotFoundError(f"{own} is missing or belongs to another job; it has the error feedback "
                                f"of this rank: {_REMEDY}")
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
    return torch.load(io.BytesIO(data.numpy()), weights_only=True)  # never executes code from a peer


def _with_sizes(fabric: Fabric, action: str, work: Callable[[], T]) -> tuple[list[int], T]:
    """Runs `work` on every rank. Returns the len() of the results of all jobs, by rank, and this rank's result."""
    result = fabric.on_all_ranks(work, action)
    sizes = gather_all(fabric._session.own_group, len(result))
    if fabric._others is not None:
        sizes = [size for of_job in gather_all(fabric._others, sizes) for size in of_job]
    return sizes, result
