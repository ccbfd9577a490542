#!/usr/bin/env python3
"""Plots the output of `nf cxl run --json` and `nf replay --json`.

    nf cxl run --llc-miss 0,0.25,0.5,0.75,1 --json > lines
    nf cxl run --outstanding 1,2,4,8,16,32,64,128 --json >> lines
    scripts/plot_cxl.py overhead -o overhead.svg lines

    nf replay TRACE --workers 2,8,32,64 --link-gbps 1,10,100,400 --json | scripts/plot_cxl.py map -o map.svg

`overhead`: the overhead of the datapath over the miss rate of the last-level cache and over the
number of outstanding accesses. Points are simulated, lines are the closed formula. All rows have the
same clock; points of the longest idle latency are filled, those of the others hollow.
`map`: the speed of the reducer relative to BF16 over bucket size and link speed, one panel per number
of workers. The contour marks equal speed.
"""

import argparse
import json
import math
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import Normalize  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402

COLOURS = {"g_binary": "#009e73", "g_ternary": "#d55e00", "identity": "#555555", "fp32": "#0072b2"}
MARKERS = {"g_binary": "o", "g_ternary": "^", "identity": "s", "fp32": "D"}
STAGES = 5  # of the datapath
MAX_DOUBLINGS = 4  # of the colour scale: 1/16 to 16 times
OVERHEAD_KEYS = ("mode", "workers", "llc_miss", "outstanding", "clock_ghz", "latency_ns",
                 "exposed_overhead", "formula_overhead")
MAP_KEYS = ("reducer", "workers", "bucket_bytes", "link_gbps", "bf16_us", "low_bit_us", "reason")


def read(files, keys):
    rows = []
    for file in files:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                for key in keys:
                    row[key]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{file.name}, line {number}: not a row for this plot") from error
            rows.append(row)
    if not rows:
        raise ValueError("the input has no rows to plot")
    return rows


def all_of(rows, key):
    return ", ".join(f"{value:g}" for value in sorted({row[key] for row in rows}))


def tidy(axes):
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_sweep(axes, rows, key, fixed, value, label):
    """Plots the rows in which `fixed` has this value over `key`."""
    longest = max(row["latency_ns"] for row in rows)
    for mode, latency in dict.fromkeys((row["mode"], row["latency_ns"]) for row in rows):
        line = sorted((row for row in rows if (row["mode"], row["latency_ns"]) == (mode, latency)
                       and row[fixed] == value), key=lambda row: row[key])
        if len(line) < 2:
            continue
        xs = [row[key] for row in line]
        colour = COLOURS.get(mode, "#999933")
        axes.plot(xs, [100 * row["formula_overhead"] for row in line], color=colour, linewidth=1)
        axes.plot(xs, [100 * row["exposed_overhead"] for row in line],
                  marker=MARKERS.get(mode, "x"), linestyle="none", markersize=5, markeredgecolor=colour,
                  markerfacecolor=colour if latency == longest else "white")
    axes.set_xlabel(label)
    for latency, clock in {(row["latency_ns"], row["clock_ghz"]) for row in rows}:
        cycles = latency * clock
        axes.axhline(100 * STAGES / cycles, color="#999999", linewidth=0.8, linestyle=":")
        axes.annotate(f"{STAGES} / {cycles:g}", (0, 100 * STAGES / cycles), xytext=(3, 2),
                      xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=8,
                      color="#777777")
    tidy(axes)


def draw_overhead(rows, path):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), dpi=150, sharey=True)
    draw_sweep(left, rows, "llc_miss", "outstanding", 1,
               "miss rate of the last-level cache (one outstanding access)")
    draw_sweep(right, rows, "outstanding", "llc_miss", 1,
               "outstanding accesses (miss rate 1)")
    right.set_xscale("log", base=2)
    right.xaxis.set_major_formatter("{x:g}")
    left.set_ylabel("exposed overhead of the datapath, %")
    modes = list(dict.fromkeys(row["mode"] for row in rows))
    legend = [Line2D([], [], color=COLOURS.get(mode, "#999933"), marker=MARKERS.get(mode, "x"),
                     linewidth=0, label=mode) for mode in modes]
    legend += [Line2D([], [], color="#333333", linewidth=1, label="closed formula")]
    longest = max(row["latency_ns"] for row in rows)
    legend += [Line2D([], [], color="#333333", marker="o", linewidth=0,
                      markerfacecolor="#333333" if latency == longest else "white",
                      label=f"{latency:g} ns") for latency in sorted({row["latency_ns"] for row in rows})]
    right.legend(handles=legend, fontsize=8, frameon=False, loc="upper right")
    figure.suptitle(f"{all_of(rows, 'workers')} workers, {all_of(rows, 'clock_ghz')} GHz, idle "
                    f"latencies of {all_of(rows, 'latency_ns')} ns; points are simulated", fontsize=10)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def speedup(row):
    """The speed relative to BF16; None if the bucket exceeds the capacity of the reducer, or if there
    is only one worker."""
    if row["reason"].startswith("capacity") or not row["bf16_us"] or not row["low_bit_us"]:
        return None
    return row["bf16_us"] / row["low_bit_us"]


def draw_panel(axes, rows, norm):
    sizes = sorted({row["bucket_bytes"] for row in rows})
    links = sorted({row["link_gbps"] for row in rows})
    cells = {(row["bucket_bytes"], row["link_gbps"]): speedup(row) for row in rows}
    grid = [[cells.get((size, link)) for size in sizes] for link in links]
    colours = [[float("nan") if cell is None
                else min(max(math.log2(cell), -MAX_DOUBLINGS), MAX_DOUBLINGS)
                for cell in line] for line in grid]
    axes.set_facecolor("#e8e8e8")
    image = axes.imshow(colours, origin="lower", aspect="auto", cmap="RdYlGn", norm=norm)
    for y, line in enumerate(grid):
        for x, cell in enumerate(line):
            text = "×" if cell is None else f"{cell:.2g}" if cell < 10 else f"{cell:.0f}"
            is_dark = cell is not None and abs(colours[y][x]) > 0.7 * MAX_DOUBLINGS
            axes.text(x, y, text, ha="center", va="center", fontsize=6.5,
                      color="white" if is_dark else "#222222")
    if len(sizes) > 1 and len(links) > 1:
        axes.contour(colours, levels=[0], colors="#222222", linewidths=1.1)
    axes.set_xticks(range(len(sizes)), [short(size) for size in sizes], fontsize=7, rotation=45)
    axes.set_yticks(range(len(links)), [f"{link:g}" for link in links], fontsize=7)
    return image


def short(size):
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size / unit:.3g}{name}"
    return str(size)


def draw_map(rows, path):
    workers = sorted({row["workers"] for row in rows})
    columns = min(2, len(workers))
    lines = -(-len(workers) // columns)
    figure, panels = plt.subplots(lines, columns, figsize=(5.6 * columns, 3.6 * lines + 0.6),
                                  dpi=150, squeeze=False, layout="constrained")
    norm = Normalize(-MAX_DOUBLINGS, MAX_DOUBLINGS)
    for axes, count in zip(panels.flat, workers):
        image = draw_panel(axes, [row for row in rows if row["workers"] == count], norm)
        axes.set_title(f"{count} workers", fontsize=9)
        axes.set_xlabel("bucket as FP32, bytes", fontsize=8)
        axes.set_ylabel("link per worker, Gb/s", fontsize=8)
    for axes in panels.flat[len(workers):]:
        axes.set_visible(False)
    bar = figure.colorbar(image, ax=panels, shrink=0.7, label="speed relative to BF16 over a ring")
    doublings = range(-MAX_DOUBLINGS, MAX_DOUBLINGS + 1)
    bar.set_ticks(list(doublings), labels=[f"{2 ** x:g}" if x >= 0 else f"1/{2 ** -x}"
                                           for x in doublings])
    codecs = ", ".join(sorted({row.get("codec", "") for row in rows}))
    reducers = ", ".join(sorted({row["reducer"] for row in rows}))
    figure.suptitle(f"{codecs} with reducer {reducers}: predicted; ×: exceeds its capacity",
                    fontsize=10)
    figure.savefig(path)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plot", choices=("overhead", "map"))
    parser.add_argument("files", nargs="*", type=argparse.FileType(), default=[sys.stdin],
                        help="JSON lines; standard input if there are none")
    parser.add_argument("-o", "--output", required=True, help="an .svg or .png file")
    chosen = parser.parse_intermixed_args()
    if not chosen.output.endswith((".svg", ".png")):
        parser.error(f"{chosen.output} is neither .svg nor .png")
    try:
        if chosen.plot == "overhead":
            draw_overhead(read(chosen.files, OVERHEAD_KEYS), chosen.output)
        else:
            draw_map(read(chosen.files, MAP_KEYS), chosen.output)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
