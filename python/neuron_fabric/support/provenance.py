"""The hardware, the versions and the commit that figures come from, for results and profiles."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import neuron_fabric

PLACE = "python/neuron_fabric/"  # the package in its checkout
CHANGES = "+changes"  # not committed


def versions() -> dict[str, str]:
    return {"neuron_fabric": neuron_fabric.__version__, "torch": torch.__version__,
            "python": platform.python_version()}


def machine(device: torch.device) -> dict[str, Any]:
    """This machine, and the device that does the work."""
    found = {"processor": processor(), "cores": os.cpu_count(), "device": device.type}
    if device.type == "cuda":
        found["card"] = torch.cuda.get_device_name(device)
    return found


def describe_machine(machine: dict[str, Any]) -> str:
    card = f"{machine['card']}, " if "card" in machine else ""
    return f"{card}{machine['processor']}, {machine['cores']} cores"


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit(folder: Path = Path(__file__).resolve().parents[1]) -> str | None:
    """The commit of the checkout that this package is in, with CHANGES if files differ from it. NF_COMMIT
    overrides it, for a copy without history."""
    if given := os.environ.get("NF_COMMIT"):
        return given
    try:
        place, _, found = _git(folder, "rev-parse", "--show-prefix", "--short=12", "HEAD").partition("\n")
        # A package installed inside another project's checkout does not have that project's commit.
        if place != PLACE:
            return None
        return found + (CHANGES if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *words: str) -> str:
    """Takes no lock, since others may commit at the same time."""
    return subprocess.run(["git", "--no-optional-locks", "-C", str(folder), *words],
                          capture_output=True, text=True, check=True).stdout.strip()
