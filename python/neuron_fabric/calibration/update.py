"""Refines a profile with the records of real training with it. Needs no PyTorch.

A calibration sees some hundred steps, a run all of them. A run shows:
  - the error of a route at low bits: the region's error budget is set above it;
  - the regions that fell back repeatedly: they use the next better route of the calibration, or become
    dense if there is none.

Jobs append to the records of a run. Records before a job with other routes belong to an earlier profile
and are ignored. Steps that a job repeats from a checkpoint on count once.
"""

import copy
import json
import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuron_fabric.calibration.limits import error_budget
from neuron_fabric.telemetry.history import History
from neuron_fabric.telemetry.reasons import CHOSEN_REASONS
from neuron_fabric.telemetry.records import (
    DENSE_ROUTE, Attach, Decision, RecordError, RegionStep, Step, parse)

DEFAULT_MAX_FALLBACKS = 3  # if the profile has no most_fallbacks


class UpdateError(ValueError):
    """A run or a profile that cannot be used; the message has the reason."""


@dataclass
class RegionRecord:
    """The records of one region in a run."""

    steps: array = field(default_factory=lambda: array("Q"))  # at low bits
    routes: dict[str, int] = field(default_factory=dict)  # at low bits, with the last step of each
    max_error: float = 0.0  # within its budget
    fallbacks: Counter[str] = field(default_factory=Counter)  # by reason
    is_locked_out: bool = False

    def undo(self, step: int) -> None:
        """Drops all steps from this one on."""
        del self.steps[bisect_left(self.steps, step):]


def read_records(run_dir: Path) -> dict[str, RegionRecord]:
    """By region. Raises UpdateError if there are none."""
    files = sorted(run_dir.glob("rank*.jsonl")) if run_dir.is_dir() else []
    if not files:
        raise UpdateError(f"{run_dir} has no records of a run (rank0.jsonl): give the folder that "
                          "was run_dir of attach()")
    seen: dict[str, RegionRecord] = {}
    try:
        with open(files[0], encoding="utf-8") as lines:
            _read(lines, seen)
    except OSError as error:
        raise UpdateError(f"cannot read {files[0]}: {error.strerror}") from error
    if not seen:
        raise UpdateError(f"{files[0]} has no steps")
    return seen


def _read(lines: Iterable[str], seen: dict[str, RegionRecord]) -> None:
    routes: dict[str, str] = {}
    budgets: dict[str, float | None] = {}
    history = History()
    for line in lines:
        try:
            event = parse(json.loads(line))
        except (ValueError, RecordError):  # the last line of a job that was killed
            continue
        if isinstance(event, Attach):
            before, routes = routes, {region.name: region.route for region in event.regions}
            budgets = {region.name: region.error_budget for region in event.regions}
            history.begin_job()
            if routes != before:
                seen.clear()
                history = History()
        elif isinstance(event, Step):
            if history.add_step(event.step):
                for known in seen.values():
                    known.undo(event.step)
            for region in event.regions:
                known = seen.setdefault(region.name, RegionRecord())
                _add(known, event.step, region, budgets.get(region.name))
        elif isinstance(event, Decision):
            seen.setdefault(event.region, RegionRecord())
            history.decide(event)
    for decision in history.decisions:
        known = seen[decision.region]
        known.is_locked_out |= decision.after == "locked_out"
        if decision.is_fallback:
            known.fallbacks[decision.after] += 1


def _add(known: RegionRecord, step: int, region: RegionStep, budget: float | None) -> None:
    if region.reason not in CHOSEN_REASONS or region.route == DENSE_ROUTE:
        return
    known.steps.append(step)
    known.routes[region.route] = step
    error = region.error or 0.0
    # Errors above the budget made the region fall back: the new budget must not admit them.
    if error <= (math.inf if budget is None else budget):
        known.max_error = max(known.max_error, error)


def update(profile: dict[str, Any], seen: dict[str, RegionRecord], run: str) -> dict[str, Any]:
    """The profile with the changes that the run suggests, which are listed in `updates` of its
    provenance."""
    names = [region["name"] for region in profile["regions"]]
    if unknown := sorted(set(seen) - set(names)):
        raise UpdateError(f"{run} belongs to another profile: it has regions {', '.join(unknown)}, "
                          f"which this one ({', '.join(names)}) does not have")
    result = copy.deepcopy(profile)
    most = result.get("health", {}).get("most_fallbacks", DEFAULT_MAX_FALLBACKS)
    rows = []
    for region in result["regions"]:
        found = seen.get(region["name"], RegionRecord())
        # An update has changed its routes, and no job has run with the new ones yet.
        is_outdated = any(route != _route_at(result, region["name"], step)
                          for route, step in found.routes.items())
        changes = [] if is_outdated else _changes(result, region, found, most)
        rows.append({"region": region["name"], "low_bit_steps": len(found.steps),
                     "most_error": found.max_error, "fallbacks": dict(found.fallbacks),
                     "locked_out": found.is_locked_out, "outdated": is_outdated,
                     "changes": changes})
    provenance = result.setdefault("provenance", {})
    provenance["updates"] = [*provenance.get("updates", []), {"run": run, "regions": rows}]
    return result


def _changes(profile: dict[str, Any], region: dict[str, Any], found: RegionRecord, most: int) -> list[str]:
    """Changes a region of the profile, and describes the changes."""
    changes = []
    if found.is_locked_out or found.fallbacks.total() > most:
        changes = _better_routes(profile, region["name"])
    if not changes and found.max_error > 0:
        budget = error_budget(found.max_error)
        if budget != region.get("error_budget"):
            changes.append(f"error budget {region.get('error_budget', 'default')} to {budget}")
            region["error_budget"] = budget
    return changes


def _route_at(profile: dict[str, Any], region: str, step: int) -> str:
    routes = [phase["routes"][region] for phase in profile["phases"] if phase["from_step"] <= step]
    return routes[-1]


def _better_routes(profile: dict[str, Any], region: str) -> list[str]:
    """In every training phase in which the region uses low bits."""
    changes = []
    for phase in profile["phases"]:
        before = phase["routes"][region]
        if before == DENSE_ROUTE:
            continue
        after = _next_better(profile, region, before)
        phase["routes"][region] = after
        changes.append(f"{before} to {after} from step {phase['from_step']}")
    return changes


def _next_better(profile: dict[str, Any], region: str, route: str) -> str:
    """The next route by the bytes that the calibration counted; fp32 if there is none."""
    rows = profile.get("provenance", {}).get("routes", [])
    rows = {row["route"]: row for row in rows if row["region"] == region}
    own = rows[route]["bytes_up"] if route in rows else math.inf
    more_expensive = [row for row in rows.values() if row["bytes_up"] > own and _is_offered(row)]
    return min(more_expensive, key=lambda row: row["bytes_up"], default={"route": DENSE_ROUTE})["route"]


def _is_offered(row: dict[str, Any]) -> bool:
    """Whether it sends less than dense, and neither diverged nor was rejected. A route that did has a
    standard error but no harm; a route that was not tried has neither."""
    is_bad = row.get("harm") is None and row.get("standard_error") is not None
    return not is_bad and row["bytes_up"] < row.get("dense_bytes", math.inf)
