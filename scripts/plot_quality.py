#!/usr/bin/env python3
"""Plots the output of `nf quality --json`: the error of each codec over its bits.

    nf quality --gradients mixture:1 --trials 5 --json > lines
    scripts/plot_quality.py -o quality.svg lines
    nf quality --gradients mixture:1 --json | scripts/plot_quality.py -o quality.png

Colours are codec families, markers are topologies. Points that differ only in their budget are
connected, with a dashed line if the codec has options.
"""

import argparse
import json
import math
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.patheffects import withStroke  # noqa: E402

# Suitable for colour-blind readers. Other families cycle through OTHERS.
COLOURS = {"waterfill": "#0072b2", "dynamiq": "#d55e00", "mxfp": "#555555", "thc": "#b2182b",
           "dense": "#000000", "g_binary": "#009e73", "g_ternary": "#4d9221", "marsit": "#8c6d1f",
           "topkc": "#cc79a7", "omnireduce": "#7f3c8d"}
OTHERS = ["#56b4e9", "#e69f00", "#999933", "#332288"]
MARKERS = {"ring": "o", "tree": "^", "direct": "s", "halving_doubling": "D", "endpoint": "v"}
MEASURES = {"vnmse": "squared error of the sum / squared exact sum (vnmse)",
            "parameter_vnmse": "vnmse per parameter, weighted by size",
            "worst_parameter_vnmse": "vnmse of the worst parameter"}
MIN_ERROR = 1e-12  # smaller errors, such as 0, are not drawn on the logarithmic axis


def family(codec):
    """"waterfill" for waterfill:4+ef, "mxfp" for mxfp8."""
    name = codec.partition(":")[0].partition("+")[0]
    if name in ("fp32", "bf16", "fp16"):
        return "dense"
    return name.rstrip("0123456789") if name.startswith("mxfp") else name


def options(codec):
    """"ef" for waterfill:4+ef."""
    return codec.partition("+")[2]


def read(files):
    rows = []
    for file in files:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                row["codec"], row["topology"], row["bits"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{file.name}, line {number}: not a result of nf quality") from error
            rows.append(row)
    return rows


def points(rows, measure):
    """The rows that can be drawn, grouped by family, options and topology and sorted by bits."""
    lines = {}
    for row in rows:
        value = row.get(measure)
        if value is None or not math.isfinite(value) or value < MIN_ERROR or row["bits"] <= 0:
            continue
        key = family(row["codec"]), options(row["codec"]), row["topology"]
        lines.setdefault(key, []).append(row)
    for line in lines.values():
        line.sort(key=lambda row: (row["bits"], row[measure]))
    return lines


class Labels:
    """Places names next to points so that they cover no other name and no other point."""

    OFFSETS = [(7, 0, "left", "center"), (-7, 0, "right", "center"), (0, 8, "center", "bottom"),
              (0, -8, "center", "top"), (6, 6, "left", "bottom"), (6, -6, "left", "top"),
              (-6, 6, "right", "bottom"), (-6, -6, "right", "top")]

    def __init__(self, axes, points):
        self.axes = axes
        self.renderer = axes.figure.canvas.get_renderer()
        self.points = [axes.transData.transform(point) for point in points]
        self.boxes = []

    def add(self, text, point, colour):
        own = self.axes.transData.transform(point)
        for x, y, horizontal, vertical in self.OFFSETS:
            label = self.axes.annotate(text, point, (x, y), textcoords="offset points", fontsize=7.5,
                                       color=colour, ha=horizontal, va=vertical,
                                       path_effects=[withStroke(linewidth=2.5, foreground="white")])
            box = label.get_window_extent(self.renderer).padded(1.5)
            frame = self.axes.get_window_extent(self.renderer)
            if (box.x0 >= frame.x0 and box.x1 <= frame.x1 and box.y0 >= frame.y0
                    and box.y1 <= frame.y1 and not any(box.overlaps(other) for other in self.boxes)
                    and not any(box.contains(*other) for other in self.points
                                if tuple(other) != tuple(own))):
                self.boxes.append(box)
                return
            label.remove()


def title(rows):
    def all_of(key):
        return ", ".join(sorted({f"{row[key]:,}" if isinstance(row[key], int) else str(row[key])
                                 for row in rows if row.get(key) is not None}))

    text = f"{all_of('gradients')}: {all_of('ranks')} ranks, {all_of('elements')} elements"
    correlation = all_of("correlation")
    return text + (f", correlation {correlation}" if correlation else "")


def draw(rows, measure, path):
    lines = points(rows, measure)
    if not lines:
        raise ValueError(f"no row has an error ({measure}) to draw")
    families = list(dict.fromkeys(name for name, _, _ in lines))
    others = [name for name in families if name not in COLOURS]
    colours = COLOURS | {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(others)}
    figure, axes = plt.subplots(figsize=(10, 7), dpi=150)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for (name, more, topology), line in lines.items():
        axes.plot([row["bits"] for row in line], [row[measure] for row in line],
                  marker=MARKERS.get(topology, "x"), markersize=6, markeredgecolor="white",
                  markeredgewidth=0.6, linewidth=0 if name == "dense" else 0.9,
                  linestyle="--" if more else "-", alpha=0.9, color=colours[name])
    axes.margins(0.08)
    ticks = [1, 2, 3, 4, 5, 6, 8, 12, 16, 32]
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in ticks if low <= tick <= high], minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("bits per element and transfer, including statistics and frames")
    axes.set_ylabel(MEASURES[measure])
    axes.set_title(title(rows), fontsize=10)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)

    legend = [Line2D([], [], color=colours[name], linewidth=2.5, label=name) for name in families]
    legend += [Line2D([], [], color="#333333", marker=MARKERS.get(topology, "x"), linestyle="none",
                      label=topology) for topology in dict.fromkeys(key[2] for key in lines)]
    axes.legend(handles=legend, fontsize=8, frameon=False, loc="upper left",
                bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    figure.canvas.draw()
    # Each codec is labelled once, at its largest error.
    named = {}
    for line in lines.values():
        for row in line:
            if row["codec"] not in named or row[measure] > named[row["codec"]][measure]:
                named[row["codec"]] = row
    labels = Labels(axes, [(row["bits"], row[measure]) for line in lines.values() for row in line])
    for codec, row in named.items():
        labels.add(codec, (row["bits"], row[measure]), colours[family(codec)])
    figure.savefig(path)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=argparse.FileType(), default=[sys.stdin],
                        help="JSON lines; standard input if there are none")
    parser.add_argument("-o", "--output", required=True, help="an .svg or .png file")
    parser.add_argument("--measure", choices=MEASURES, default="vnmse")
    chosen = parser.parse_args()
    if not chosen.output.endswith((".svg", ".png")):
        parser.error(f"{chosen.output} is neither .svg nor .png")
    try:
        draw(read(chosen.files), chosen.measure, chosen.output)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
