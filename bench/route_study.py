#!/usr/bin/env python3
"""Trains workloads along several routes with paired seeds, all in one job, and prints the differences of their
losses from those of the first route, with 90 % intervals.

    torchrun --standalone --nproc-per-node 4 bench/route_study.py --device cuda --data DIR -o study \\
        --workloads llama,gpt:small --routes plain_bf16,default,default/embedding=waterfill:6 --seeds 3

A route is one of `nf train --route`, or the default profile with changes: default/REGION=ROUTE/... and
warm_up=STEPS. Every run is one line of DIR/WORKLOAD.jsonl; the same command continues a study.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))  # if the package is not installed
from neuron_fabric.model import parameters_of
from neuron_fabric.profile import resolve
from neuron_fabric.ranks.job import JobError, join, leave
from neuron_fabric.support.tables import align
from neuron_fabric_lab.compare.intervals import Difference, paired
from neuron_fabric_lab.train.options import TrainOptions, positive
from neuron_fabric_lab.train.run import Run, workload_of
from neuron_fabric_lab.workloads import WORKLOADS, DataError

CHANGED = "default/"
LAST = 0.1  # the share of steps whose mean loss counts as the training loss


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].replace("\n", " "))
    parser.add_argument("--workloads", default="gpt", metavar="A,B:SIZE,...", help="workloads of nf train (gpt)")
    parser.add_argument("--routes", default="plain_bf16,default", metavar="A,B,...", help="the first is the baseline")
    parser.add_argument("--seeds", type=positive, default=3, help="the number of seeds, from 1 on (3)")
    parser.add_argument("--steps", type=positive, default=300, help="steps of each run (300)")
    parser.add_argument("--data", type=Path, help="the folder with the data of the workloads that need one")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="(cpu)")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help="the folder of the results")
    options = parser.parse_args(arguments)
    for workload in options.workloads.split(","):
        name, _, size = workload.partition(":")
        if name not in WORKLOADS:
            parser.error(f"workload '{name}' is unknown; known are {', '.join(WORKLOADS)}")
        try:
            WORKLOADS[name].check_size(size or None)
        except ValueError as error:
            parser.error(str(error))
    return options


def changed_default(route: str, workload: Any, out: Path) -> str:
    """default/REGION=ROUTE/... as profile:FILE. Collective; rank 0 writes the file."""
    profile = resolve(None, None, parameters_of(workload.make_model(1))).to_dict()
    [phase] = profile["phases"]
    known = [region["name"] for region in profile["regions"]]
    for change in route.removeprefix(CHANGED).split("/"):
        what, _, value = change.partition("=")
        if what == "warm_up":
            profile["health"]["warm_up_steps"] = int(value)
        elif what in known:
            phase["routes"][what] = value
        elif what not in ("embedding", "head", "norm", "bias"):
            raise ValueError(f"'{what}' of '{route}' is not a region")
    text = json.dumps(profile, indent=1)
    file = out / "profiles" / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    if dist.get_rank() == 0:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    dist.barrier()
    return f"profile:{file}"


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def train(options: TrainOptions, workload: Any, device: torch.device) -> dict[str, Any]:
    run = Run(options, workload, device)
    while not run.is_over:
        run.advance()
    last, traffic = run.curve[-1], run.traffic()
    result = {
        "loss": last["loss"], "accuracy": last["accuracy"], "diverged": run.diverged,
        "training_loss": statistics.fmean(run.losses[-max(1, round(LAST * len(run.losses))):]),
        "bytes": traffic.bytes / len(run.losses), "step_seconds": statistics.median(run.step_times),
        "fallbacks": len(traffic.fallbacks), "steps": len(run.losses), "parameters": run.values}
    run.close()
    return result


def study(options: argparse.Namespace, device: torch.device, name: str) -> None:
    kind, _, size = name.partition(":")
    file = options.out / f"{name.replace(':', '_')}.jsonl"
    done = {(row["route"], row["seed"]) for row in read(file)}
    dist.barrier()
    base = TrainOptions(kind, options.out, size=size or None, data=options.data, steps=options.steps,
                        device=options.device, ranks=dist.get_world_size(), eval_every=options.steps)
    workload = workload_of(base, device)
    for seed in range(1, options.seeds + 1):
        for route in options.routes.split(","):
            if (route, seed) in done:
                continue
            actual = changed_default(route, workload, options.out) if route.startswith(CHANGED) else route
            row = {"workload": name, "route": route, "seed": seed, **train(
                dataclasses.replace(base, route=actual, seed=seed), workload, device)}
            if dist.get_rank() == 0:
                with file.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
                print(f"{name} seed {seed} {route}: loss {row['loss']:.4f}", file=sys.stderr, flush=True)


def shown(difference: Difference | None) -> str:
    if difference is None:
        return "-"
    interval = "" if difference.low is None else f" [{difference.low:+.4f}, {difference.high:+.4f}]"
    return f"{difference.mean:+.4f}{interval}"


def table(rows: list[dict[str, Any]], routes: list[str]) -> str:
    lines = [["route", "loss", "difference", "training loss", "difference", "accuracy", "MB per step", "step ms",
              "fallbacks"]]
    for route in routes:
        own = [row for row in rows if row["route"] == route]
        if not own:
            continue

        def mean(key: str, own: list[dict[str, Any]] = own) -> float:
            return statistics.fmean(row[key] for row in own)

        def difference(key: str, own: list[dict[str, Any]] = own) -> str:
            base = {row["seed"]: row[key] for row in rows if row["route"] == routes[0]}
            return shown(paired({row["seed"]: row[key] for row in own}, base)) if own[0]["route"] != routes[0] else ""

        lines.append([route, f"{mean('loss'):.4f}", difference("loss"), f"{mean('training_loss'):.4f}",
                      difference("training_loss"), f"{100 * mean('accuracy'):.2f} %", f"{mean('bytes') / 1e6:.1f}",
                      f"{1000 * mean('step_seconds'):.1f}", f"{mean('fallbacks'):.1f}"])
    return align(lines, left=1)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("NF_SHARED_MACHINE", "1")  # times are not what is studied
    try:
        device = join(options.device)
    except JobError as error:
        sys.exit(f"route_study: {error}")
    try:
        for name in options.workloads.split(","):
            study(options, device, name)
            if dist.get_rank() == 0:
                rows = read(options.out / f"{name.replace(':', '_')}.jsonl")
                print(f"{name}: {rows[0]['parameters']:,} parameters, {dist.get_world_size()} ranks, "
                      f"{options.steps} steps, {options.seeds} seeds\n{table(rows, options.routes.split(','))}\n",
                      flush=True)
    except (DataError, ValueError) as error:
        sys.exit(f"route_study: {error}")
    leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
