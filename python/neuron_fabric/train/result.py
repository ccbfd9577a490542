"""What a run came to, as one JSON object with everything that is needed to make it again."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import neuron_fabric
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
    return {"versions": {"neuron_fabric": neuron_fabric.__version__, "torch": torch.__version__,
                         "python": platform.python_version()},
            "commit": commit(), "machine": machine(device),
            "command": os.environ.get("NF_COMMAND") or " ".join(["nf train", *sys.argv[1:]])}


def machine(device: torch.device) -> dict[str, Any]:
    found = {"processor": processor(), "cores": os.cpu_count(), "device": device.type}
    if device.type == "cuda":
        found["card"] = torch.cuda.get_device_name(device)
    return found


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit() -> str | None:
    """Of the checkout that this package is in; NF_COMMIT says it where there is a copy without history."""
    if told := os.environ.get("NF_COMMIT"):
        return told
    folder = Path(__file__).resolve().parent
    try:
        done = subprocess.run(["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"],
                              capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
