#!/usr/bin/env python3
"""Measures the time of a training step per route; all routes take turns in one run.

Runs in every process of a job: under torchrun on this host, or on slow links
(docs/howto/slow_links.md). bench/README.md describes the columns.
    torchrun --standalone --nproc-per-node 4 bench/step_time.py --routes plain,useful,waterfill:4
    sudo scripts/slow_links.sh --launcher torch -- .venv/bin/python bench/step_time.py \\
        --parameters 20M --routes plain,bf16,waterfill:4
    torchrun --standalone --nproc-per-node 4 bench/step_time.py --device cuda --model gpt \\
        --size 124m --batch 4 --routes plain,plain_bf16,waterfill:4
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))  # if the package is not installed
from neuron_fabric.ranks.job import JobError, arithmetic, join, wait_for
from neuron_fabric.support.tables import align
from neuron_fabric_lab.workloads import WORKLOADS, DataError, Workload, make_workload
from wrappers import NAMES, without_reduction, wrap

UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}
MODES = ("off", "shadow")
ADMITS = ("useful", "safe")
PROFILE = "profile:"
PLAIN = ("plain", "plain_bf16")  # the wrapper without the runtime


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def amount(text: str) -> int:
    unit = UNITS.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    try:
        value = int(float(digits) * unit)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number such as 500K or 20M")
    return value


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["mlp", *WORKLOADS], default="mlp",
                        help="mlp: layers of one width; any other: a workload of nf train (mlp)")
    parser.add_argument("--parameters", type=amount, default=20_000_000, metavar="N",
                        help="parameters of the mlp, such as 20M (20M)")
    parser.add_argument("--layers", type=positive, default=8, help="layers of the mlp (8)")
    parser.add_argument("--size", help="size of the workload")
    parser.add_argument("--data", type=Path, help="the folder with the data of a workload that needs one")
    parser.add_argument("--batch", type=positive, default=8, help="rows per rank (8)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu",
                        help="cuda: NCCL, matrices in BF16; ranks may share a GPU (cpu)")
    parser.add_argument("--routes", default="plain,fp32,bf16,waterfill:4", metavar="A,B,...",
                        help="plain: DDP alone; plain_bf16: DDP with PyTorch's BF16 hook; useful, "
                        "safe: attach(admit=...); off, shadow: attach() with that NF_MODE; "
                        "profile:FILE: attach(profile=FILE, admit='safe'); any other: "
                        "attach(route=...) (plain,fp32,bf16,waterfill:4)")
    parser.add_argument("--steps", type=positive, default=20, help="measured steps per route (20)")
    parser.add_argument("--warm-up", type=int, default=3, metavar="N",
                        help="unmeasured steps per route (3; useful and safe need more than the "
                        "warm-up of their profile)")
    parser.add_argument("--turn", type=positive, default=5, metavar="N",
                        help="steps of a route before the next route's turn (5)")
    parser.add_argument("--wrapper", choices=NAMES, default="ddp", help="wrapper of the model (ddp)")
    parser.add_argument("--shards", type=positive, default=2, metavar="N",
                        help="shards of a replica, for hsdp (2)")
    parser.add_argument("--within", choices=["dense", "low_bit"], default="dense",
                        help="reduction within a replica, for hsdp (dense)")
    parser.add_argument("--gather", choices=["fp32", "bf16"], default="fp32",
                        help="type in which FSDP gathers parameters and computes (fp32)")
    parser.add_argument("--keep", action="store_true",
                        help="keep gathered parameters until backward (reshard_after_forward=False)")
    parser.add_argument("--topology", default="auto", help="topology of low-bit all-reduces (auto)")
    parser.add_argument("--trace", type=Path, metavar="DIR",
                        help="write the trace of two steps of each route on rank 0 to ROUTE.json.gz, "
                        "for bench/plot_trace.py or chrome://tracing")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON object per route instead of a table")
    return parser.parse_args(arguments)


@dataclass
class Variant:
    """A model and the route of its gradients. Creating it is collective."""

    route: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    fabric: Any = None  # nf.Fabric, if one is attached
    before: dict[str, Any] = field(default_factory=dict)  # the summary before the measurement
    turns: list[float] = field(default_factory=list)      # seconds per step of this rank
    sent: list[float] = field(default_factory=list)       # bytes per step on the links of this host


class Mlp:
    """A workload with random data: layers of one width, without biases."""

    def __init__(self, parameters: int, layers: int, batch: int) -> None:
        self.width = max(1, round(math.sqrt(parameters / layers)))
        self.layers = layers
        self.batch = batch

    def make_model(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        blocks = []
        for _ in range(self.layers):
            blocks += [nn.Linear(self.width, self.width, bias=False), nn.ReLU()]
        return nn.Sequential(*blocks)

    def batches(self, rank: int, ranks: int, seed: int) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed * ranks + rank)
        rows = torch.randn(self.batch, self.width, generator=generator)
        while True:
            yield rows

    def loss(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return model(batch.to(next(model.parameters()).device)).square().mean()


def make_task(options: argparse.Namespace, device: torch.device) -> Mlp | Workload:
    if options.model == "mlp":
        return Mlp(options.parameters, options.layers, options.batch)
    return make_workload(options.model, options.size, options.data, options.batch).to(device)


def link_bytes() -> int:
    """Sent since boot through the interfaces of this host other than loopback, headers included."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    links = [line.split(":") for line in lines]
    return sum(int(counts.split()[8]) for name, counts in links if name.strip() != "lo")


@contextlib.contextmanager
def mode(name: str) -> Iterator[None]:
    """Sets NF_MODE for one attach()."""
    saved = os.environ.get("NF_MODE")
    os.environ["NF_MODE"] = name
    try:
        yield
    finally:
        if saved is None:
            del os.environ["NF_MODE"]
        else:
            os.environ["NF_MODE"] = saved


def make_variant(route: str, task: Mlp | Workload, options: argparse.Namespace,
                 device: torch.device) -> Variant:
    model = wrap(task.make_model(1).to(device), options.wrapper, options.shards,
                 in_bf16=route == "plain_bf16",
                 parameters=torch.bfloat16 if options.gather == "bf16" else None, keeps=options.keep)
    # A tiny learning rate: all the work of a step, but the model cannot diverge.
    variant = Variant(route, model, torch.optim.SGD(model.parameters(), lr=1e-9))
    if route not in PLAIN:
        import neuron_fabric as nf  # the wrapper alone needs no extension

        with mode(route if route in MODES else "on"):
            variant.fabric = nf.attach(model, topology=options.topology, within_replicas=options.within,
                                       **settings_of(route))
    return variant


def settings_of(route: str) -> dict[str, str]:
    if route in MODES:
        return {}
    if route in ADMITS:
        return {"admit": route}
    if route.startswith(PROFILE):
        return {"profile": route.removeprefix(PROFILE), "admit": "safe"}
    return {"route": route}


class Bench:
    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        self.options = options
        self.device = device
        self.task = make_task(options, device)
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.batches = self.task.batches(rank, ranks, 1)
        self.variants = [make_variant(route, self.task, options, device)
                         for route in options.routes.split(",")]
        self.compute = make_variant("plain", self.task, options, device)  # no all-reduces
        self.compute.route = "compute"

    def step(self, variant: Variant) -> None:
        batch = next(self.batches)
        variant.optimizer.zero_grad()
        is_alone = variant is self.compute
        with without_reduction(variant.model) if is_alone else contextlib.nullcontext():
            with arithmetic(self.device):
                loss = self.task.loss(variant.model, batch)
            loss.backward()
        variant.optimizer.step()

    def turn(self, variant: Variant, steps: int) -> float:
        """Seconds per step, after a barrier."""
        wait_for(self.device)
        dist.barrier()
        started = time.perf_counter()
        for _ in range(steps):
            self.step(variant)
        wait_for(self.device)
        return (time.perf_counter() - started) / steps

    def measure(self) -> None:
        options = self.options
        variants = [self.compute, *self.variants]
        for variant in variants:
            self.turn(variant, max(1, options.warm_up))
            if variant.fabric is not None:
                variant.before = summary_of(variant.fabric)
        turns = max(1, round(options.steps / options.turn))
        for done in range(turns):
            for variant in variants:
                steps = min(options.turn, options.steps)
                before = link_bytes()
                variant.turns.append(self.turn(variant, steps))
                variant.sent.append((link_bytes() - before) / steps)
            variants.append(variants.pop(0))  # rotate, so that no variant is always first
            self.show_progress(done + 1, turns)

    def trace(self, folder: Path) -> None:
        """Traces two steps of each variant. Collective; rank 0 writes the files."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.device.type == "cuda":
            activities = [torch.profiler.ProfilerActivity.CUDA]
        for variant in [self.compute, *self.variants]:
            if dist.get_rank() != 0:
                self.turn(variant, 2)
                continue
            with torch.profiler.profile(activities=activities) as profile:
                self.turn(variant, 2)
            folder.mkdir(parents=True, exist_ok=True)
            name = variant.route.replace(":", "_").replace("/", "_")
            profile.export_chrome_trace(str(folder / f"{name}.json.gz"))

    def show_progress(self, done: int, of: int) -> None:
        if dist.get_rank() == 0 and sys.stderr.isatty():
            print(f"\rround {done} of {of}", end="\n" if done == of else "", file=sys.stderr,
                  flush=True)

    def results(self) -> list[dict[str, Any]]:
        """One result per route. Collective; the time of a turn is that of its slowest rank."""
        rows = torch.tensor([variant.turns for variant in [self.compute, *self.variants]])
        dist.all_reduce(rows, op=dist.ReduceOp.MAX)
        compute, *times = rows.tolist()
        count = sum(p.numel() for p in self.compute.model.parameters())
        common = {
            "model": self.options.model, "wrapper": self.options.wrapper, "parameters": count,
            "ranks": dist.get_world_size(),
            "steps": len(compute) * min(self.options.turn, self.options.steps),
            "compute_seconds": statistics.median(compute),
        }
        return [{"route": variant.route} | common | figures(variant, row, common)
                for variant, row in zip(self.variants, times, strict=True)]

    def close(self) -> None:
        for variant in self.variants:
            if variant.fabric is not None:
                variant.fabric.close()


def summary_of(fabric: Any) -> dict[str, Any]:
    """With the bytes of both stages of HSDP."""
    if fabric is None:
        return {}
    summary = fabric.summary().to_dict()
    if fabric.within is not None:
        summary["bytes"] += fabric.within.summary().to_dict()["bytes"]
    return summary


def figures(variant: Variant, times: list[float], common: dict[str, Any]) -> dict[str, Any]:
    compute, ranks = common["compute_seconds"], common["ranks"]
    step = statistics.median(times)
    # With shards, a rank also takes part in all-gathers of parameters, and with replicas of shards in
    # a reduce-scatter.
    passes = 1 if common["wrapper"] == "fsdp2" else 2
    dense_bytes = 4 * common["parameters"] * passes * (ranks - 1) / ranks
    known = {"plain": dense_bytes, "off": dense_bytes, "plain_bf16": dense_bytes / 2}
    result = {
        "step_seconds": step, "fastest_seconds": min(times), "slowest_seconds": max(times),
        "exposed_seconds": step - compute,
        "predicted_exposed_seconds": None, "predicted_step_seconds": None,
        "bytes": None if common["wrapper"] == "hsdp" else known.get(variant.route),
        "link_bytes": statistics.median(variant.sent), "dense_bytes": dense_bytes, "now": "",
    }
    now = summary_of(variant.fabric)
    if now.get("steps"):
        steps = now["steps"] - variant.before["steps"]
        predicted = now["predicted_exposed_seconds"]
        result |= {
            "bytes": (now["bytes"] - variant.before["bytes"]) / steps,
            "predicted_exposed_seconds": predicted,
            "predicted_step_seconds": None if predicted is None else compute + predicted,
            "now": " ".join(sorted({region["route_now"] for region in now["regions"]})),
        }
    return result


def table(results: list[dict[str, Any]]) -> str:
    first = results[0]["step_seconds"]
    rows = [["route", "now", "step ms", "min", "max", "speedup", "exposed ms", "predicted",
             "MB per step", "link MB"]]

    def ms(seconds: float | None) -> str:
        return "-" if seconds is None else f"{1000 * seconds:.1f}"

    for result in results:
        rows.append([
            result["route"], result["now"] or "-", ms(result["step_seconds"]),
            ms(result["fastest_seconds"]), ms(result["slowest_seconds"]),
            f"{first / result['step_seconds']:.3f} x", ms(result["exposed_seconds"]),
            ms(result["predicted_exposed_seconds"]),
            "-" if result["bytes"] is None else f"{result['bytes'] / 1e6:.2f}",
            f"{result['link_bytes'] / 1e6:.2f}"])
    return align(rows, left=2)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        device = join(options.device)
        bench = Bench(options, device)
    except (JobError, DataError, ValueError) as error:
        sys.exit(f"step_time: {error}")
    bench.measure()
    results = bench.results()
    if options.trace:
        bench.trace(options.trace)
    if dist.get_rank() == 0:
        if options.json:
            for result in results:
                print(json.dumps(result))
        else:
            first = results[0]
            print(f"{first['model']}: {first['parameters']:,} parameters, {first['ranks']} ranks, "
                  f"{first['steps']} steps per route; a step without all-reduces takes "
                  f"{1000 * first['compute_seconds']:.1f} ms\n\n{table(results)}")
    bench.close()
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
