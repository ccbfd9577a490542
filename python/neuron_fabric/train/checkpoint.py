"""What is kept of a run that stops. Every rank has a file of its own, and a last word of rank 0 says which
of them belong together, so that an interruption never leaves ranks at different steps."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from neuron_fabric.files import write_whole

WORD = "state.json"
FOLDER = "state"


class OtherRun(RuntimeError):
    """The folder belongs to a run with other options."""


def kept_steps(out: Path) -> int:
    """Of the run in this folder; 0 where there is none."""
    try:
        return int(json.loads((out / WORD).read_text())["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def check_same(out: Path, identity: dict[str, Any]) -> None:
    """Raises OtherRun where the folder holds another one than this."""
    if kept_steps(out) == 0:
        return
    kept = json.loads((out / WORD).read_text())["options"]
    if differs := [key for key in identity if kept.get(key) != identity[key]]:
        raise OtherRun(f"{out} holds a run with another {' and '.join(differs)}; remove the folder, or "
                       "give this run another --out")


class Checkpoint:
    """In all ranks together. Raises OtherRun as check_same() does: ranks may have been started by others
    than `nf train`."""

    def __init__(self, out: Path, identity: dict[str, Any]) -> None:
        check_same(out, identity)
        self.out = out
        self.folder = out / FOLDER
        self.identity = identity
        self.rank = dist.get_rank()

    def save(self, step: int, state: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.save(state, self._file(step))
        dist.barrier()
        if self.rank == 0:
            write_whole(self.out / WORD, json.dumps(
                {"step": step, "ranks": dist.get_world_size(), "options": self.identity}))
        dist.barrier()
        for file in self.folder.glob(f"rank{self.rank}.*.pt"):
            if file != self._file(step):
                file.unlink()

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """None where there is nothing to go on from."""
        step = kept_steps(self.out)
        return torch.load(self._file(step), map_location=device) if step else None

    def remove(self) -> None:
        """Of all ranks; one of them does it."""
        (self.out / WORD).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, step: int) -> Path:
        return self.folder / f"rank{self.rank}.{step}.pt"
