"""Queries PyTorch and the extension in a separate process: a build for another machine can crash the
process, and a driver can hang."""

import importlib
import json
import signal
import subprocess
import sys
from typing import Any

Facts = dict[str, Any]

SECONDS = 120  # a first import from a slow disk is slow


def _torch() -> Facts:
    import torch

    return {"version": torch.__version__, "cuda": torch.version.cuda}


def _backends() -> Facts:
    import torch
    import torch.distributed as dist

    has_nccl = dist.is_available() and dist.is_nccl_available()
    return {"gloo": dist.is_available() and dist.is_gloo_available(),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if has_nccl else None}


def _extension() -> Facts:
    extension = importlib.import_module("neuron_fabric._C")
    # An older extension does not report what it was built for.
    return {"version": extension.__version__, "devices": extension.devices,
            "architectures": getattr(extension, "architectures", ""),
            "built_for_torch": getattr(extension, "built_for_torch", None)}


def _devices() -> Facts:
    import torch

    cards = range(torch.cuda.device_count())
    return {"cards": [{"name": torch.cuda.get_device_name(card),
                       "capability": torch.cuda.get_device_capability(card)} for card in cards]}


STAGES = {"torch": _torch, "backends": _backends, "extension": _extension, "devices": _devices}


def _print_facts() -> None:
    """Prints one line per stage, so that earlier results survive if a later stage crashes."""
    for name, query in STAGES.items():
        try:
            facts = query()
        except Exception as error:  # any exception: the probe reports it
            facts = {"error": " ".join(str(error).split()) or type(error).__name__}
        print(json.dumps({name: facts}), flush=True)
        if name == "torch" and "error" in facts:
            return


def probe() -> dict[str, Facts]:
    """The facts by stage. A stage that failed has an `error`; the stages after it are missing."""
    try:
        done = subprocess.run([sys.executable, "-P", "-m", "neuron_fabric.doctor.probe"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        printed, end = done.stdout, _end(done)
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode()
        end = f"no answer in {SECONDS} s"
    found: dict[str, Facts] = {}
    for line in printed.splitlines():
        if line.startswith('{"'):
            found |= json.loads(line)
    missing = next((name for name in STAGES if name not in found), None)
    if end and missing:
        found[missing] = {"error": end}
    return found


def _end(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode < 0:
        return f"Python was killed by {signal.Signals(-done.returncode).name}"
    if done.returncode > 0:
        return (done.stderr.strip().splitlines() or ["Python ended"])[-1]
    return ""


if __name__ == "__main__":
    _print_facts()
