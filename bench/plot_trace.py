#!/usr/bin/env python3
"""Plots the device traces of bench/step_time.py --trace: one step of each, on a common time axis.

    bench/plot_trace.py -o trace.png trace/plain.json.gz trace/waterfill_4.json.gz

Each trace has three rows: kernels of the model, kernels of codecs and runtime, and transfers.
"""

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

KINDS = {"model": "#0072b2", "codec": "#009e73", "wire": "#d55e00"}
DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}


def kind_of(event: dict[str, Any], model_stream: int) -> str:
    if "nccl" in event["name"]:
        return "wire"
    return "model" if event["args"]["stream"] == model_stream else "codec"


def read(path: Path) -> list[dict[str, Any]]:
    """The device events in the order of time."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    events = [event for event in events if event.get("cat") in DEVICE_CATEGORIES]
    if not events:
        raise ValueError(f"{path}: the trace has no device events")
    return sorted(events, key=lambda event: event["ts"])


def rows_of(events: list[dict[str, Any]]) -> tuple[dict[str, list[tuple[float, float]]], float]:
    """(begin, length) in ms per kind of event of the first of the two steps, and the step's length."""
    model_stream = events[0]["args"]["stream"]
    start = events[0]["ts"]
    end = max(event["ts"] + event["dur"] for event in events)
    half = (end - start) / 2
    rows: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for event in events:
        if event["ts"] < start + half:
            rows[kind_of(event, model_stream)].append(
                ((event["ts"] - start) / 1000, event["dur"] / 1000))
    return rows, half / 1000


def draw(traces: list[tuple[str, list[dict[str, Any]]]]) -> plt.Figure:
    figure, all_axes = plt.subplots(len(traces), 1, figsize=(11, 1.25 * len(traces) + 0.6),
                                    sharex=True, layout="constrained", squeeze=False)
    for (name, events), axes in zip(traces, all_axes[:, 0], strict=True):
        rows, length = rows_of(events)
        for row, (kind, colour) in enumerate(KINDS.items()):
            axes.broken_barh(rows[kind], (-row - 0.4, 0.8), color=colour, linewidth=0)
        axes.axvline(length, color="black", linewidth=1)
        axes.text(length, 0.55, f" {length:.0f} ms", ha="left", va="top", fontsize=9)
        axes.set_yticks([-row for row in range(len(KINDS))], list(KINDS), fontsize=8)
        axes.set_title(name, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[-1, 0].set_xlabel("milliseconds of one step on the device of rank 0")
    return figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("-o", "--out", type=Path, required=True, help="a .png or .svg")
    options = parser.parse_args()
    try:
        traces = [(path.name.partition(".")[0], read(path)) for path in options.files]
    except (OSError, ValueError, KeyError) as error:
        print(f"plot_trace: {error}", file=sys.stderr)
        return 2
    draw(traces).savefig(options.out, dpi=130)
    return 0


if __name__ == "__main__":
    sys.exit(main())
