"""What several runs of each route say together."""

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
MARGIN = 0.005  # of accuracy, below the least of the pace, for a target that nobody gave


@dataclass(frozen=True)
class Arrival:
    """Means over runs, of training up to the first evaluation that was as good as the target."""

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
    spread: float | None            # standard deviation over seeds, of what it is judged by
    difference: Difference | None   # to the baseline, of the same
    bytes_ratio: float | None
    bytes_up_ratio: float | None
    step_seconds: float             # medians over runs, both, so that exposed stays below step
    exposed_seconds: float | None
    reached: int                    # runs that came to the target
    arrival: Arrival | None         # where all did


@dataclass(frozen=True)
class Comparison:
    results: Sequence[Result]
    rows: list[RouteFigures]         # in the order in which routes come first
    baseline: str | None             # the route that others differ from
    pace: RouteFigures | None        # the one whose way to the target others are measured by
    target: Target | None
    target_was_given: bool

    @property
    def has_times(self) -> bool:
        """Of their own, all of them: runs beside others have none."""
        return not any(map(shared_machine, self.results))

    @property
    def judged_by(self) -> Merit:
        return self.target.merit if self.target is not None else "accuracy"


def compare(results: Sequence[Result], baseline: str | None = None,
            target: Target | None = None, shared: bool = False) -> Comparison:
    """A baseline that is named is all that others are compared with. Else they differ from full precision,
    which is the truth, and race BF16, which is what they have to beat. `shared`: all runs shared their
    machine, whatever they say themselves."""
    results = [result | {"shared_machine": True} for result in results] if shared else results
    runs: dict[str, list[Result]] = {}
    for result in results:
        runs.setdefault(result["route"], []).append(result)
    full, half = first_of(FULL_PRECISION, runs), first_of(BF16, runs)
    named = baseline if baseline in runs else None
    baseline, pace = named or full or half, named or half or full
    wanted = target or usual_target(runs.get(pace or "", []))
    merit = wanted.merit if wanted is not None else "accuracy"
    rows = {route: _figures(own, runs[baseline] if baseline not in (None, route) else [], merit, wanted)
            for route, own in runs.items()}
    return Comparison(results, list(rows.values()), baseline, rows.get(pace or ""), wanted,
                      target is not None)


def first_of(names: Sequence[str], routes: Iterable[str]) -> str | None:
    return next((route for route in routes if route in names), None)


def usual_target(runs: Sequence[Result]) -> Target | None:
    """A little below the least that these came to, so that all of them have a time."""
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
    """Empty where one is not."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []
