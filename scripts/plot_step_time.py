#!/usr/bin/env python3
"""Plots the step times of the README, split into compute and exposed communication.

    .venv/bin/python scripts/plot_step_time.py -o docs/img/step_time.svg

The figures and their commands are in bench/README.md, sections "Training on a GPU" and "Step time".
Keep both in sync.
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COMPUTE, EXPOSED = "#9aa5b1", "#d55e00"
# Title, unit, and for each row: label, step time, exposed time.
PANELS = [
    ("GPT, 122 M parameters: 4 ranks on one H200, NCCL over sockets", "ms",
     [("plain DDP (FP32)", 237.2, 196.2), ("bf16_compress_hook", 123.3, 82.3),
      ("nf.attach(model)", 64.3, 23.3)]),
    ("MLP, 12 M parameters: 4 ranks, Gloo, 200 Mb/s links", "s",
     [("plain DDP (FP32)", 3.107, 3.033), ("bf16 route", 1.751, 1.677),
      ("nf.attach(model)", 0.700, 0.626)]),
]


def draw(axes: plt.Axes, title: str, unit: str, rows: list[tuple[str, float, float]]) -> None:
    baseline = rows[0][1]
    for y, (label, step, exposed) in enumerate(rows):
        axes.barh(y, step - exposed, color=COMPUTE, height=0.62)
        axes.barh(y, exposed, left=step - exposed, color=EXPOSED, height=0.62)
        time = f"{step:.0f} {unit}" if step >= 10 else f"{step:.2f} {unit}"
        gain = f"  ({baseline / step:.1f} ×)" if y > 0 else ""
        axes.text(step + baseline / 100, y, time + gain, va="center",
                  weight="bold" if label.startswith("nf.") else "normal")
    axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    axes.set_xlim(0, 1.16 * baseline)
    axes.invert_yaxis()
    axes.set_title(title, loc="left", fontsize=10)
    axes.tick_params(left=False)
    axes.xaxis.set_visible(False)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", required=True)
    out = parser.parse_args().out
    plt.rcParams["svg.hashsalt"] = "step_time"  # reproducible output
    figure, all_axes = plt.subplots(len(PANELS), figsize=(8.4, 3.6), layout="constrained")
    for axes, panel in zip(all_axes, PANELS, strict=True):
        draw(axes, *panel)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in (COMPUTE, EXPOSED)]
    figure.legend(handles, ["compute", "waiting for gradients"], loc="outside lower center", ncols=2,
                  frameon=False)
    metadata = {"Date": None} if out.endswith(".svg") else {}
    figure.savefig(out, facecolor="white", metadata=metadata)


if __name__ == "__main__":
    main()
