"""Accuracy against time and against bytes, a line a route: means over seeds, and their range behind it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

COLOURS = ("#000000", "#7f7f7f", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
AXES = {"seconds": "seconds of training", "bytes": "bytes sent by a rank"}


def draw(results: Sequence[dict[str, Any]], title: str, files: Sequence[Path],
         target: float | None = None) -> None:
    """Needs matplotlib; raises ModuleNotFoundError without it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    routes = list(dict.fromkeys(result["route"] for result in results))
    for axes, (key, label) in zip(places, AXES.items(), strict=True):
        for route, colour in zip(routes, COLOURS * len(routes)):
            runs = [result["curve"] for result in results if result["route"] == route]
            x, low, middle, high = _band(runs, key)
            axes.plot(x, middle, color=colour, linewidth=1.6, marker="o", markersize=2.5,
                      label=Path(route).name if route.startswith("profile:") else route)
            axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        if target is not None:
            axes.axhline(100 * target, color="#555555", linewidth=0.8, linestyle=":")
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    if all(point["bytes"] > 0 for result in results for point in result["curve"]):
        places[1].set_xscale("log")  # a single rank sends nothing
    places[0].set_ylabel("accuracy, %")
    places[0].legend(frameon=False, loc="lower right", fontsize=9)
    figure.suptitle(title, fontsize=11)
    for file in files:
        figure.savefig(file, dpi=130)
    plt.close(figure)


def _band(curves: Sequence[list[dict[str, Any]]], key: str) -> tuple[np.ndarray, ...]:
    """At each evaluation that all runs have: where it was on the mean, and least, mean, most accuracy."""
    count = min(map(len, curves))
    x = np.mean([[point[key] for point in curve[:count]] for curve in curves], axis=0)
    y = 100 * np.array([[point["accuracy"] for point in curve[:count]] for curve in curves])
    return x, y.min(0), y.mean(0), y.max(0)
