"""Comparisons as text and JSON: one row per route, one JSON object per run, and the fallbacks."""

from collections.abc import Sequence

from neuron_fabric.support import units
from neuron_fabric_lab import json_text
from neuron_fabric_lab.train.result import commits, own_times, shared_machine
from neuron_fabric_lab.train.target import Merit, to_target

from .figures import Comparison, RouteFigures
from .intervals import Difference

KEYS = ("workload", "route", "seed", "ranks", "accuracy", "loss", "bytes", "bytes_ratio", "bytes_up_ratio",
        "step_seconds", "exposed_seconds", "target", "seconds_to_target", "steps_to_target",
        "bytes_to_target")
HEAD = ["route", "runs", "accuracy", "loss", "spread", "difference", "90 % interval", "bytes", "up", "step",
        "exposed"]
TIMES = 2  # the number of time columns, which are last


def json_lines(comparison: Comparison) -> str:
    """One object per run. The times of runs that shared the machine are null."""
    rows = [own_times(result | to_target(comparison.target, result["curve"]))
            for result in comparison.results]
    return "\n".join(json_text.dumps({key: row[key] for key in KEYS}) for row in rows)


def route_rows(comparison: Comparison) -> list[list[str]]:
    rows = [HEAD, *(_cells(row, comparison.judged_by) for row in comparison.rows)]
    return rows if comparison.has_times else [row[:-TIMES] for row in rows]


def _cells(row: RouteFigures, merit: Merit) -> list[str]:
    return [row.route, f"{row.runs} ({row.diverged} diverged)" if row.diverged else str(row.runs),
            f"{100 * row.accuracy:.2f} %", f"{row.loss:.4f}", _amount(row.spread, merit),
            _change(row.difference.mean if row.difference else None, merit),
            _interval(row.difference, merit), units.percent(row.bytes_ratio),
            units.percent(row.bytes_up_ratio), units.seconds(row.step_seconds),
            units.seconds(row.exposed_seconds)]


def _amount(value: float | None, merit: Merit) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.2f}" if merit == "accuracy" else f"{value:.4f}"


def _change(value: float | None, merit: Merit) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.2f}" if merit == "accuracy" else f"{value:+.4f}"


def _interval(difference: Difference | None, merit: Merit) -> str:
    if difference is None or difference.low is None:
        return "-"
    return f"{_change(difference.low, merit)} to {_change(difference.high, merit)}"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of a head, and of rows that start with a route."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *([f"`{row[0]}`", *row[1:]] for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def legend(comparison: Comparison) -> str:
    what = "points of accuracy" if comparison.judged_by == "accuracy" else "loss"
    parts = [f"difference: {what} relative to {comparison.baseline}, paired by seed"
             if comparison.baseline else "",
             "spread: standard deviation over seeds", "bytes: sent in both directions, relative to FP32",
             "up: contributions only",
             "step and exposed: medians over seeds" if comparison.has_times else ""]
    return "; ".join(filter(None, parts))


def no_times(comparison: Comparison) -> str:
    """Why there are no times; empty if there are."""
    beside = sum(map(shared_machine, comparison.results))
    return (f"times are omitted: {beside} of {units.counted(len(comparison.results), 'run')} shared the "
            "machine with others" if beside else "")


def several_commits(comparison: Comparison) -> str:
    """Several commits: then runs may differ in more than their routes. Empty if there is one."""
    found = sorted({commit for result in comparison.results for commit in commits(result)})
    return f"the runs are of {len(found)} commits: {', '.join(found)}" if len(found) > 1 else ""


def fallbacks(comparison: Comparison) -> list[str]:
    """One sentence per route that fell back to full precision: the first step, and the reason."""
    sentences = []
    for row in comparison.rows:
        runs = [result for result in comparison.results if result["route"] == row.route]
        fallen = [result["fallbacks"][0] for result in runs if result["fallbacks"]]
        if fallen:
            first = min(fallen, key=lambda fallback: fallback["step"])
            sentences.append(f"{row.route} fell back in {len(fallen)} of {len(runs)} runs, first at step "
                             f"{first['step']}: {first['reason']}")
    return sentences
