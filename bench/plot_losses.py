#!/usr/bin/env python3
"""Draws the losses that nf train kept: the curves, and how far each is from the first.

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
    """Means of so many steps in a row."""
    return np.convolve(values, np.ones(steps) / steps, mode="valid")


def read(path: Path) -> tuple[str, np.ndarray]:
    try:
        run = json.loads(path.read_text())
        return run.get("label", run.get("route", path.stem)), np.array(run["losses"], dtype=float)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: no result of nf train") from error


def draw(runs: list[tuple[str, np.ndarray]], steps: int) -> plt.Figure:
    figure, (curves, distances) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    first_name, first = runs[0]
    for (name, losses), colour in zip(runs, COLOURS * len(runs)):
        means = smooth(losses, steps)
        curves.plot(np.arange(len(means)) + steps, means, color=colour, label=name, linewidth=1.4)
        shared = min(len(losses), len(first))
        distance = smooth(losses[:shared] - first[:shared], steps)
        distances.plot(np.arange(len(distance)) + steps, distance, color=colour, label=name,
                       linewidth=1.4)
    curves.set_ylabel(f"training loss, means of {steps} steps")
    distances.set_ylabel(f"loss less that of {first_name}")
    for axes in (curves, distances):
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    curves.legend(frameon=False)
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", help="the first is what others differ from")
    parser.add_argument("-o", "--out", type=Path, required=True, help="a .png or .svg")
    parser.add_argument("--smooth", type=int, default=50, metavar="STEPS", help="(50)")
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
