"""The figures of several runs of each route."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from neuron_fabric_lab.train.result import shared_machine
from neuron_fabric_lab.train.target import Merit, Target, to_target

from .intervals import Difference, paired

Result = dict[str, Any]

FULL_PRECISION = ("fp32", "plain")
BF16 = ("bf16", "plain_bf16")
MARGIN = 0.005  # accuracy below the minimum of the pace, for the default target


@dataclass(frozen=True)
class Arrival:
    """Means over runs, of training up to the first evaluation that reached the target."""

    seconds: float
    steps: float
    bytes: float


@dataclass(frozen=True)
class RouteFigures:
    route: str
    runs: int
    diverged: int
    accuracy: float
    loss: float
    spread: float | None            # standard deviation over seeds, of the accuracy or loss
    difference: Difference | None   # to the baseline
    bytes_ratio: float | None
    bytes_up_ratio: float | None
    step_seconds: float             # medians over runs, as is exposed, so that exposed stays below step
    exposed_seconds: float | None
    reached: int                    # runs that reached the target
    arrival: Arrival | None         # if all did


@dataclass(frozen=True)
class Comparison:
    results: Sequence[Result]
    rows: list[RouteFigures]         # in the order of the first run of each route
    baseline: str | None             # the route that others are compared with
    pace: RouteFigures | None        # the route whose time to the target others are compared with
    target: Target | None
    target_was_given: bool

    @property
    def has_times(self) -> bool:
        """Whether all runs have times: runs that shared the machine have none."""
        return not any(map(shared_machine, self.results))

    @property
    def judged_by(self) -> Merit:
        return self.target.merit if self.target is not None else "accuracy"


def compare(results: Sequence[Result], baseline: str | None = None,
            target: Target | None = None, shared: bool = False) -> Comparison:
    """If a baseline is given, others are compared only with it. Otherwise they are compared with full
    precision, the exact result, and with the time of BF16, the usual alternative. `shared`: all runs
    shared the machine, even if their results do not say so."""
    results = [result | {"shared_machine": True} for result in results] if shared else results
    runs: dict[str, list[Result]] = {}
    for result in results:
        runs.setdefault(result["route"], []).append(result)
    full, half = first_of(FULL_PRECISION, runs), first_of(BF16, runs)
    named = baseline if baseline in runs else None
    baseline, pace = named or full or half, named or half or full
    wanted = target or default_target(runs.get(pace or "", []))
    merit = wanted.merit if wanted is not None else "accuracy"
    rows = {route: _figures(own, runs[baseline] if baseline not in (None, route) else [], merit, wanted)
            for route, own in runs.items()}
    return Comparison(results, list(rows.values()), baseline, rows.get(pace or ""), wanted,
                      target is not None)


def first_of(names: Sequence[str], routes: Iterable[str]) -> str | None:
    return next((route for route in routes if route in names), None)


def default_target(runs: Sequence[Result]) -> Target | None:
    """A little below the minimum of these, so that all of them reach it."""
    accuracies = [run["accuracy"] for run in runs if not run["diverged"]]
    return Target("accuracy", min(accuracies) - MARGIN) if accuracies else None


def _figures(runs: list[Result], base: list[Result], merit: Merit, target: Target | None) -> RouteFigures:
    own, other = ({run["seed"]: run[merit] for run in part} for part in (runs, base))
    return RouteFigures(
        route=runs[0]["route"], runs=len(runs), diverged=sum(run["diverged"] for run in runs),
        accuracy=statistics.fmean(run["accuracy"] for run in runs),
        loss=statistics.fmean(run["loss"] for run in runs),
        spread=_spread(list(own.values())), difference=paired(own, other),
        bytes_ratio=_mean([run["bytes_ratio"] for run in runs]),
        bytes_up_ratio=_mean([run["bytes_up_ratio"] for run in runs]),
        step_seconds=statistics.median(run["step_seconds"] for run in runs),
        exposed_seconds=_median([run["exposed_seconds"] for run in runs]),
        **_arrival([to_target(target, run["curve"]) for run in runs]))


def _arrival(ways: Sequence[dict[str, Any]]) -> dict[str, Any]:
    there = [way for way in ways if way["steps_to_target"] is not None]
    if len(there) < len(ways):
        return {"reached": len(there), "arrival": None}
    means = {name: statistics.fmean(way[f"{name}_to_target"] for way in there)
             for name in ("seconds", "steps", "bytes")}
    return {"reached": len(there), "arrival": Arrival(**means)}


def _spread(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = _all_known(values)
    return statistics.fmean(known) if known else None


def _median(values: Sequence[float | None]) -> float | None:
    known = _all_known(values)
    return statistics.median(known) if known else None


def _all_known(values: Sequence[float | None]) -> list[float]:
    """Empty if one is missing."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []
