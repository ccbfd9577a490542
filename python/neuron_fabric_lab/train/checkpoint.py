"""The state of a run that stops. Every rank has its own file. A file of rank 0, written last, says which
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
    """The folder belongs to a run with other options, or ranks have different folders."""


def kept_steps(out: Path) -> int:
    """The saved steps of the run in this folder; 0 if there is none."""
    try:
        return int(json.loads((out / WORD).read_text())["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def check_same(out: Path, identity: dict[str, Any]) -> None:
    """Raises OtherRun if the folder has another run, finished or not."""
    if (kept := kept_run(out)) is None:
        return
    if differs := differing(kept.get("options"), identity):
        raise OtherRun(f"{out} has a run with another {' and '.join(differs)}; remove the folder, or "
                       "use another --out")


def kept_run(out: Path) -> dict[str, Any] | None:
    """The record of the run in this folder, finished or not, with its `options` and `command`."""
    if kept_steps(out):
        return json.loads((out / WORD).read_text())
    result = read_result(out)
    return result if result is not None and result.get("finished") else None


class Checkpoint:
    """Collective. Raises OtherRun on all ranks, as check_same() does on one: ranks may have been started
    by another program than `nf train`, on hosts that do not share the folder."""

    def __init__(self, out: Path, identity: dict[str, Any], command: str = "") -> None:
        self.out = out
        self.folder = out / FOLDER
        self.identity = identity
        self.command = command
        self.rank = dist.get_rank()
        self.step = self._agreed_step()  # to continue from

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
        """None if there is no checkpoint."""
        return torch.load(self._file(self.step), map_location=device) if self.step else None

    def remove(self) -> None:
        """Removes the files of all ranks; one rank does it. Other files stay."""
        if kept_steps(self.out):
            (self.out / WORD).unlink()
        for file in self.folder.glob("rank*.*.pt"):
            file.unlink()
        with contextlib.suppress(OSError):  # it does not exist, or is not empty
            self.folder.rmdir()

    def _agreed_step(self) -> int:
        """Collective: a rank that continued from another step would leave the others waiting."""
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
            raise OtherRun(f"ranks find different steps in {self.out} ({kept}): use an --out that all "
                           "hosts share, or remove the folder on each")
        return steps[0]

    def _file(self, step: int) -> Path:
        return self.folder / f"rank{self.rank}.{step}.pt"
