"""What is kept of a run that stops. Every rank has a file of its own, and a last word of rank 0 says which
of them belong together, so that an interruption never leaves ranks at different steps."""

import contextlib
import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from neuron_fabric.support.files import write_atomic

from .result import differing, read_result

WORD = "state.json"
FOLDER = "state"


class OtherRun(RuntimeError):
    """The folder belongs to a run with other options, or ranks see other folders."""


def kept_steps(out: Path) -> int:
    """Of the run in this folder; 0 where there is none."""
    try:
        return int(json.loads((out / WORD).read_text())["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def check_same(out: Path, identity: dict[str, Any]) -> None:
    """Raises OtherRun where the folder holds another one than this, on its way or finished."""
    if (kept := kept_run(out)) is None:
        return
    if differs := differing(kept.get("options"), identity):
        raise OtherRun(f"{out} holds a run with another {' and '.join(differs)}; remove the folder, or "
                       "give this run another --out")


def kept_run(out: Path) -> dict[str, Any] | None:
    """What is said of the run in this folder, on its way or finished, with its `options` and `command`."""
    if kept_steps(out):
        return json.loads((out / WORD).read_text())
    result = read_result(out)
    return result if result is not None and result.get("finished") else None


class Checkpoint:
    """In all ranks together. Raises OtherRun on all of them, as check_same() does on one: ranks may have
    been started by others than `nf train`, and on machines that do not share the folder."""

    def __init__(self, out: Path, identity: dict[str, Any], command: str = "") -> None:
        self.out = out
        self.folder = out / FOLDER
        self.identity = identity
        self.command = command
        self.rank = dist.get_rank()
        self.step = self._agreed_step()  # to go on from

    def save(self, step: int, state: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.save(state, self._file(step))
        dist.barrier()
        if self.rank == 0:
            write_atomic(self.out / WORD, json.dumps(
                {"step": step, "ranks": dist.get_world_size(), "options": self.identity,
                 "command": self.command}))
        dist.barrier()
        for file in self.folder.glob(f"rank{self.rank}.*.pt"):
            if file != self._file(step):
                file.unlink()

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """None where there is nothing to go on from."""
        return torch.load(self._file(self.step), map_location=device) if self.step else None

    def remove(self) -> None:
        """Of all ranks; one of them does it. What is not ours stays."""
        if kept_steps(self.out):
            (self.out / WORD).unlink()
        for file in self.folder.glob("rank*.*.pt"):
            file.unlink()
        with contextlib.suppress(OSError):  # there is none, or it holds something else
            self.folder.rmdir()

    def _agreed_step(self) -> int:
        """Collective: a rank that goes on from elsewhere, or not at all, would leave the others waiting."""
        step, refusal = kept_steps(self.out), None
        try:
            check_same(self.out, self.identity)
        except OtherRun as error:
            refusal = str(error)
        found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(found, (step if self._file(step).exists() else 0, refusal))
        steps, refusals = zip(*found, strict=True)
        if any(refusals):
            raise OtherRun(next(filter(None, refusals)))
        if len(set(steps)) > 1:
            kept = ", ".join(f"rank {rank}: {step}" for rank, step in enumerate(steps))
            raise OtherRun(f"ranks find other steps kept in {self.out} ({kept}): give an --out that all "
                           "machines share, or remove the folder on each")
        return steps[0]

    def _file(self, step: int) -> Path:
        return self.folder / f"rank{self.rank}.{step}.pt"
