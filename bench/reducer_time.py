#!/usr/bin/env python3
"""Compares the time of all-reduces with the shared-memory reducer in training with `nf replay`.

    torchrun --standalone --nproc-per-node 4 bench/reducer_time.py

Trains a GPT with attach(reducer="cxl") and --route for its blocks. The model is one bucket, so that
the all-reduce does not share cores with the backward pass. Ranks enter an all-reduce at different
times and wait for each other, so its time is that of the rank that entered last.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "python"))  # if the package is not installed
import neuron_fabric as nf  # noqa: E402
from neuron_fabric.ranks.job import JobError, join  # noqa: E402
from neuron_fabric.telemetry import Reader  # noqa: E402
from neuron_fabric_lab.workloads import make_workload  # noqa: E402


def profile(route: str) -> dict[str, object]:
    return {
        "format": "neuron_fabric.profile", "version": 1, "name": "signs",
        "regions": [{"name": "blocks", "names": ["blocks.*.weight"], "error_budget": 100.0},
                    {"name": "rest"}],
        "phases": [{"from_step": 0, "routes": {"blocks": route, "rest": "fp32"}}],
        "health": {"warm_up_steps": 0},
    }


class Seconds(Reader):
    """Collects the all-reduce seconds of the blocks on this rank, per step."""

    def __init__(self) -> None:
        self.by_step: list[float] = []

    def write(self, record: dict) -> None:
        if record["event"] == "step":
            self.by_step += [region["seconds"] for region in record["regions"]
                             if region["name"] == "blocks"]


def train(options: argparse.Namespace, trace: Path) -> list[float]:
    """Seconds of all-reduces per step, on the rank that entered last. Collective."""
    workload = make_workload("gpt", options.size, batch=1)
    ddp = DistributedDataParallel(workload.make_model(1), bucket_cap_mb=1000)
    seconds = Seconds()
    fabric = nf.attach(ddp, profile(options.route), admit="safe", reducer="cxl", record=trace,
                       record_lines=options.record_lines, readers=[seconds])
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    batches = workload.batches(dist.get_rank(), dist.get_world_size(), 1)
    for _, batch in zip(range(options.steps), batches):
        optimizer.zero_grad()
        workload.loss(ddp, batch).backward()
        optimizer.step()
    fabric.close()
    fastest = torch.tensor(seconds.by_step, dtype=torch.float64)
    dist.all_reduce(fastest, op=dist.ReduceOp.MIN)
    return fastest.tolist()[1:]  # DDP rebuilds its buckets after the first step


def predict(trace: Path, route: str) -> float:
    """Predicted seconds per step: encode, reduce and decode of all buckets."""
    head, *lines = trace.read_text().splitlines()
    one = trace.with_suffix(".step.jsonl")
    last_step = json.loads(lines[-1])["step"]
    kept = [line for line in lines if json.loads(line)["step"] == last_step]
    one.write_text("\n".join([head, *kept]) + "\n")
    # The dense values would count as time on the link: a fast link hides it.
    done = subprocess.run([ROOT / "nf", "replay", one, "--reducer", "shared", "--codec", route,
                           "--link-gbps", "1e6", "--latency-us", "0", "--json"],
                          check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return sum(row["low_bit_us"] * row.get("buckets", 1) for row in rows) * 1e-6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small", help="size of the GPT (small)")
    parser.add_argument("--steps", type=int, default=100, help="training steps (100)")
    parser.add_argument("--route", default="g_binary", help="g_binary (the default) or g_ternary")
    parser.add_argument("--record-lines", type=Path, metavar="FILE",
                        help="write the cache lines of the gradients to FILE, for rtl/run.sh replay")
    options = parser.parse_args()
    try:
        join("cpu")
    except JobError as error:
        sys.exit(f"reducer_time: {error}")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "buckets.jsonl"
        measured = train(options, trace)
        if dist.get_rank() == 0:
            predicted, median = predict(trace, options.route), statistics.median(measured)
            print(f"{dist.get_world_size()} ranks, {len(measured)} steps: measured "
                  f"{1e3 * median:.2f} ms per step (min {1e3 * min(measured):.2f}), predicted "
                  f"{1e3 * predicted:.2f} ms, {predicted / median - 1:+.0%}")
        dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
