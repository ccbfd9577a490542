"""The result of a run, as one JSON object with everything that is needed to repeat it."""

import json
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from neuron_fabric.support import provenance
from neuron_fabric.support.files import write_atomic
from neuron_fabric_lab import json_text

from .target import to_target

if TYPE_CHECKING:
    from .run import Run

FILE = "result.json"
TIMES = ("step_seconds", "compute_seconds", "exposed_seconds", "seconds_to_target")


def result_of(run: "Run") -> dict[str, Any]:
    """The result so far, without the command."""
    options, traffic, last = run.options, run.traffic(), (run.curve or [{}])[-1]
    result = {
        "workload": options.workload, "route": options.route, "seed": options.seed,
        "ranks": run.ranks, "accuracy": last.get("accuracy"), "loss": last.get("loss"),
        "bytes": traffic.bytes / max(1, len(run.losses)), "bytes_ratio": traffic.bytes_ratio,
        "bytes_up_ratio": traffic.bytes_up_ratio,
        "step_seconds": statistics.median(run.step_times) if run.step_times else None,
        "exposed_seconds": None, **to_target(options.target, run.curve),
        "size": run.workload.size_name, "admit": options.admit,
        "device": run.device.type, "batch": run.workload.batch_size, "steps": len(run.losses),
        "wanted_steps": run.steps, "parameters": run.values, "dense_bytes": run.dense_bytes,
        "seconds": run.seconds, "shared_machine": run.is_beside_others,
        "finished": run.is_over, "diverged": run.diverged,
        "curve": run.curve, "losses": run.losses, "regions": traffic.regions,
        "fallbacks": traffic.fallbacks, "options": run.identity,
        "versions": provenance.versions(), "commit": ", ".join(run.commits) or None,
        "machine": provenance.machine(run.device)}
    if run.fabric is not None:
        result |= {"place": run.fabric.place, "held_bytes": run.fabric.held_bytes,
                   "topology": run.fabric.topology}
    if run.device.type == "cuda":
        result["peak_allocated"] = torch.cuda.max_memory_allocated(run.device)
    return result


def write_result(out: Path, result: dict[str, Any]) -> None:
    write_atomic(out / FILE, json_text.dumps(result))


def read_result(out: Path) -> dict[str, Any] | None:
    """None if it does not exist or is incomplete."""
    try:
        result = parse_result((out / FILE).read_text())
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None


def parse_result(text: str) -> Any:
    """One result, or a list of them. Raises ValueError."""
    return json.loads(text, object_hook=_with_loss)


def _with_loss(found: dict[str, Any]) -> dict[str, Any]:
    """The loss of an evaluation: null stands for NaN and Inf."""
    if found.get("accuracy") is not None and "loss" in found and found["loss"] is None:
        found["loss"] = math.nan
    return found


def shared_machine(result: dict[str, Any]) -> bool:
    """Whether the run, or a part of it, shared the machine, so that its times do not count."""
    return bool(result.get("shared_machine"))


def commits(result: dict[str, Any]) -> list[str]:
    """The commits of all parts of the run."""
    return str(result["commit"]).split(", ")


def own_times(result: dict[str, Any]) -> dict[str, Any]:
    """The result, without times if the run shared the machine."""
    return result | dict.fromkeys(TIMES) if shared_machine(result) else result


def is_finished(result: dict[str, Any] | None, identity: dict[str, Any]) -> bool:
    """Whether it has these options and is complete."""
    return (result is not None and bool(result.get("finished"))
            and not differing(result.get("options"), identity))


def differing(kept: dict[str, Any] | None, identity: dict[str, Any]) -> list[str]:
    """The options in which a saved run differs from this one."""
    kept = kept or {}
    return [key for key in identity | kept if kept.get(key) != identity.get(key)]
