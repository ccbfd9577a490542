#!/usr/bin/env python3
"""Plots the losses of nf train: the curves, and the difference of each from the first.

    bench/plot_losses.py -o losses.png bench/results/gpt_124m/*.json
"""

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

COLOURS = ["#000000", "#0072b2", "#009e73", "#d55e00", "#cc79a7", "#e69f00"]


def smooth(values: np.ndarray, steps: int) -> np.ndarray:
    """The moving average over `steps` steps."""
    return np.convolve(values, np.ones(steps) / steps, mode="valid")


def read(path: Path) -> tuple[str, np.ndarray]:
    try:
        run = json.loads(path.read_text())
        return run.get("label", run.get("route", path.stem)), np.array(run["losses"], dtype=float)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a result of nf train") from error


def draw(runs: list[tuple[str, np.ndarray]], steps: int) -> plt.Figure:
    figure, (curves, differences) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    first_name, first = runs[0]
    for (name, losses), colour in zip(runs, COLOURS * len(runs)):
        means = smooth(losses, steps)
        curves.plot(np.arange(len(means)) + steps, means, color=colour, label=name, linewidth=1.4)
        shared = min(len(losses), len(first))
        difference = smooth(losses[:shared] - first[:shared], steps)
        differences.plot(np.arange(len(difference)) + steps, difference, color=colour, label=name,
                         linewidth=1.4)
    curves.set_ylabel(f"training loss, average of {steps} steps")
    differences.set_ylabel(f"loss minus that of {first_name}")
    for axes in (curves, differences):
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    curves.legend(frameon=False)
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", help="results; the first is the baseline")
    parser.add_argument("-o", "--out", type=Path, required=True, help="a .png or .svg")
    parser.add_argument("--smooth", type=int, default=50, metavar="STEPS", help="steps of the moving average (50)")
    options = parser.parse_args()
    try:
        runs = [read(path) for path in options.files]
    except (OSError, ValueError) as error:
        print(f"plot_losses: {error}", file=sys.stderr)
        return 2
    draw(runs, options.smooth).savefig(options.out, dpi=130)
    return 0


if __name__ == "__main__":
    sys.exit(main())
