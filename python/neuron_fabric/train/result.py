"""What a run came to, as one JSON object with everything that is needed to make it again."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from neuron_fabric import provenance
from neuron_fabric.files import write_whole

from .checkpoint import plain

FILE = "result.json"


def read_result(out: Path) -> dict[str, Any] | None:
    """None where there is none, or half of one."""
    try:
        result = json.loads((out / FILE).read_text())
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None


def write_result(out: Path, result: dict[str, Any]) -> None:
    write_whole(out / FILE, json.dumps(result))


def is_finished(result: dict[str, Any] | None, identity: dict[str, Any]) -> bool:
    """Whether it is of these options, and complete."""
    return (result is not None and bool(result.get("finished"))
            and result.get("options") == plain(identity))


def seconds_to(target: float | None, curve: list[dict[str, Any]]) -> float | None:
    """Seconds of training at the first evaluation that was as good; None where none was."""
    if target is None:
        return None
    return next((point["seconds"] for point in curve if point["accuracy"] >= target), None)


def surroundings(device: torch.device) -> dict[str, Any]:
    return {"versions": provenance.versions(), "commit": provenance.commit(),
            "machine": provenance.machine(device),
            "command": os.environ.get("NF_COMMAND") or " ".join(["nf train", *sys.argv[1:]])}
