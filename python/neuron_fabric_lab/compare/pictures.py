"""Accuracy, or loss, against time (steps, if there are no times) and against bytes: one line per route,
means over seeds with their range."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from neuron_fabric.support import units
from neuron_fabric.support.files import atomic_file
from neuron_fabric_lab.train.target import Merit

from .figures import Comparison, Result

COLOURS = ("#000000", "#7f7f7f", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
LABELS = {"seconds": "seconds of training", "step": "steps", "bytes": "bytes sent by a rank"}


def draw(comparison: Comparison, files: Sequence[Path]) -> None:
    """Needs matplotlib; raises ModuleNotFoundError without it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    results, target, merit = comparison.results, comparison.target, comparison.judged_by
    scale, corner = (100, "lower right") if merit == "accuracy" else (1, "upper right")
    routes = [row.route for row in comparison.rows]
    for axes, key in zip(places, ("seconds" if comparison.has_times else "step", "bytes"), strict=True):
        for route, colour in zip(routes, COLOURS * len(routes)):
            runs = [result["curve"] for result in results if result["route"] == route]
            x, low, middle, high = _band(runs, key, merit)
            axes.plot(x, scale * middle, color=colour, linewidth=1.6, marker="o", markersize=2.5,
                      label=Path(route).name if route.startswith("profile:") else route)
            axes.fill_between(x, scale * low, scale * high, color=colour, alpha=0.15, linewidth=0)
        if target is not None:
            axes.axhline(scale * target.value, color="#555555", linewidth=0.8, linestyle=":")
        axes.set_xlabel(LABELS[key])
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    if all(point["bytes"] > 0 for result in results for point in result["curve"]):
        places[1].set_xscale("log")  # a single rank sends nothing
    places[0].set_ylabel("accuracy, %" if merit == "accuracy" else merit)
    places[0].legend(frameon=False, loc=corner, fontsize=9)
    figure.suptitle(_title(results), fontsize=11)
    for file in files:
        # The same results give the same bytes, so that a diff of the page shows only changes.
        with atomic_file(file) as part, plt.rc_context({"svg.hashsalt": "neuron_fabric"}):
            figure.savefig(part, format=file.suffix[1:], dpi=130,
                           metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(figure)


def _title(results: Sequence[Result]) -> str:
    seeds = len({result["seed"] for result in results})
    ranks = units.counted(results[0]["ranks"], "rank")
    return f"{results[0]['workload']}, {ranks}, {units.counted(seeds, 'seed')}"


def _band(curves: Sequence[list[Result]], key: str, merit: Merit) -> tuple[np.ndarray, ...]:
    """At each evaluation that all runs have: the mean position, and minimum, mean and maximum."""
    count = min(map(len, curves))
    x = np.mean([[point[key] for point in curve[:count]] for curve in curves], axis=0)
    y = np.array([[point[merit] for point in curve[:count]] for curve in curves])
    return x, y.min(0), y.mean(0), y.max(0)
