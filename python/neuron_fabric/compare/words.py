"""Comparisons for people: a table, and what it says of each route beside BF16."""

import json
from collections.abc import Sequence
from typing import Any

from neuron_fabric import units
from neuron_fabric.tables import align
from neuron_fabric.train.result import seconds_to

from .figures import BF16, RouteFigures, first_of
from .intervals import Difference

KEYS = ("workload", "route", "seed", "ranks", "accuracy", "loss", "bytes", "bytes_ratio",
        "bytes_up_ratio", "step_seconds", "exposed_seconds", "seconds_to_target")
HEAD = ["route", "runs", "accuracy", "spread", "difference", "90 % interval", "loss", "bytes", "up",
        "step", "exposed", "to target"]


def json_lines(results: Sequence[dict[str, Any]], target: float | None) -> str:
    """One object a run."""
    rows = [result | {"seconds_to_target": seconds_to(target, result["curve"])} for result in results]
    return "\n".join(json.dumps({key: row[key] for key in KEYS}) for row in rows)


def points(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.2f}"


def interval(difference: Difference | None) -> str:
    if difference is None or difference.low is None:
        return "-"
    return f"{points(difference.low)} to {points(difference.high)}"


def cells(row: RouteFigures) -> list[str]:
    reached = units.seconds(row.seconds_to_target)
    if row.reached < row.runs:
        reached = f"{row.reached} of {row.runs} runs" if row.reached else "never"
    return [row.route + (f" ({row.diverged} diverged)" if row.diverged else ""), str(row.runs),
            f"{100 * row.accuracy:.2f} %", "-" if row.spread is None else f"{100 * row.spread:.2f}",
            points(row.difference.mean if row.difference else None), interval(row.difference),
            f"{row.loss:.4f}", units.percent(row.bytes_ratio), units.percent(row.bytes_up_ratio),
            units.seconds(row.step_seconds), units.seconds(row.exposed_seconds), reached]


def table(rows: Sequence[RouteFigures]) -> str:
    return align([HEAD, *map(cells, rows)], left=1)


def markdown(rows: Sequence[RouteFigures]) -> str:
    lines = [HEAD, ["---"] * len(HEAD), *([f"`{row[0]}`", *row[1:]] for row in map(cells, rows))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def legend(baseline: str | None, target: float | None) -> str:
    parts = [f"difference: points of accuracy to {baseline}, paired by seed" if baseline else "",
             "bytes: sent both ways, of FP32's; up: the contributions alone",
             f"target: {100 * target:.2f} %, seconds of training" if target is not None else ""]
    return "; ".join(filter(None, parts))


def beside_bf16(rows: Sequence[RouteFigures]) -> list[str]:
    """A sentence a route: how much sooner it is there than BF16, or that it is not better, and why."""
    base_name = first_of(BF16, [row.route for row in rows])
    base = next((row for row in rows if row.route == base_name), None)
    if base is None or base.seconds_to_target is None:
        return []
    sentences = []
    for row in rows:
        if row is base:
            continue
        if row.seconds_to_target is None:
            why = f"{row.reached} of {row.runs} runs came to the target"
            sentences.append(f"{row.route} is not better than {base.route}: {why}")
            continue
        factor = base.seconds_to_target / row.seconds_to_target
        if factor <= 1:
            sentences.append(f"{row.route} is not better than {base.route}: it takes {1 / factor:.2f} x as "
                             "long to the target")
        else:
            sentences.append(f"{row.route} is at the target {factor:.2f} x sooner than {base.route}")
    return sentences


def fallbacks(results: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence a route that fell back to full precision: where first, and why."""
    sentences = []
    for route in dict.fromkeys(result["route"] for result in results):
        runs = [result for result in results if result["route"] == route]
        fallen = [result["fallbacks"][0] for result in runs if result["fallbacks"]]
        if fallen:
            first = min(fallen, key=lambda fallback: fallback["step"])
            sentences.append(f"{route} fell back in {len(fallen)} of {len(runs)} runs, first at step "
                             f"{first['step']}: {first['reason']}")
    return sentences
