"""What several runs of each route say together."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neuron_fabric.train.result import seconds_to

from .intervals import Difference, paired

Result = dict[str, Any]

FULL_PRECISION = ("fp32", "plain")
BF16 = ("bf16", "plain_bf16")
MARGIN = 0.005  # below the baseline's final accuracy, of a target that nobody gave


@dataclass(frozen=True)
class RouteFigures:
    route: str
    runs: int
    diverged: int
    accuracy: float
    spread: float | None  # standard deviation of the accuracy over seeds
    loss: float
    difference: Difference | None       # of accuracy
    loss_difference: Difference | None
    bytes_ratio: float | None
    bytes_up_ratio: float | None
    step_seconds: float
    exposed_seconds: float | None
    reached: int                        # runs that came to the target
    seconds_to_target: float | None     # the mean, where all did


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None


def first_of(names: Sequence[str], routes: Sequence[str]) -> str | None:
    return next((route for route in routes if route in names), None)


def usual_target(results: Sequence[Result]) -> float | None:
    """A little below what the 16-bit baseline came to, or that of full precision where there is none."""
    routes = list(dict.fromkeys(result["route"] for result in results))
    base = first_of(BF16, routes) or first_of(FULL_PRECISION, routes)
    if base is None:
        return None
    return statistics.fmean(r["accuracy"] for r in results if r["route"] == base) - MARGIN


def figures(results: Sequence[Result], baseline: str | None, target: float | None) -> list[RouteFigures]:
    """One a route, in the order in which routes come first."""
    by_route: dict[str, list[Result]] = {}
    for result in results:
        by_route.setdefault(result["route"], []).append(result)
    base = by_route.get(baseline or "", [])
    return [_figures(route, runs, base if route != baseline else [], target)
            for route, runs in by_route.items()]


def _figures(route: str, runs: list[Result], base: list[Result], target: float | None) -> RouteFigures:
    accuracies = [run["accuracy"] for run in runs]
    times = [seconds_to(target, run["curve"]) for run in runs]

    def difference(key: str) -> Difference | None:
        own, other = ({run["seed"]: run[key] for run in part} for part in (runs, base))
        return paired(own, other)

    return RouteFigures(
        route=route, runs=len(runs), diverged=sum(run["diverged"] for run in runs),
        accuracy=statistics.fmean(accuracies),
        spread=statistics.stdev(accuracies) if len(runs) > 1 else None,
        loss=statistics.fmean(run["loss"] for run in runs),
        difference=difference("accuracy"), loss_difference=difference("loss"),
        bytes_ratio=mean([run["bytes_ratio"] for run in runs]),
        bytes_up_ratio=mean([run["bytes_up_ratio"] for run in runs]),
        step_seconds=statistics.median(run["step_seconds"] for run in runs),
        exposed_seconds=mean([run["exposed_seconds"] for run in runs]),
        reached=sum(time is not None for time in times), seconds_to_target=mean(times))
