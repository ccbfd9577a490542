#!/usr/bin/env python3
"""Trains a network with simulated workers along several arms with paired seeds, and prints the excess of their losses
over the first arm, with 90 % intervals, beside the errors of the reduced gradient.

    bench/optimizer_study.py --task bytes --data DIR --device cuda -o study --seeds 5 --processes 3 --deadline 500 \\
        --arms dense dither:{2.5,3,4}+widths=energy+alpha=0.5 eden:{2,2.5,3,4}+units=1

bench/simulated/arms.py documents arms. All arms have the batches and initial weights of their seed. All arms of
seed 1 come first. Every run is one line of DIR/runs.jsonl; the same command continues a study.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))  # if the package is not installed
sys.path.append(str(Path(__file__).resolve().parent))
from neuron_fabric.support.tables import align
from neuron_fabric_lab.compare.intervals import paired
from neuron_fabric_lab.train.options import positive
from neuron_fabric_lab.workloads import DataError
from simulated.arms import parse_arm
from simulated.networks import Network
from simulated.tasks import TASKS
from simulated.training import RATES, Optimizer, Trainer

RESERVE = 1.3  # a run may take this much longer than the one before


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].replace("\n", " "))
    parser.add_argument("--task", choices=TASKS, default="bytes", help="(bytes)")
    parser.add_argument("--size", choices=["full", "tiny"], default="full", help="(full)")
    parser.add_argument("--optimizer", choices=["adamw", "sgd"], default="adamw", help="(adamw)")
    parser.add_argument("--rate", type=float, help="the highest learning rate (by task and optimizer)")
    parser.add_argument("--arms", nargs="+", required=True, metavar="ARM", help="the first is the baseline")
    parser.add_argument("--seeds", type=positive, default=5, help="the number of seeds, from 1 on (5)")
    parser.add_argument("--steps", type=positive, default=300, help="steps of each run (300)")
    parser.add_argument("--workers", type=positive, default=8, help="simulated workers (8)")
    parser.add_argument("--processes", type=positive, default=1, help="processes that share the device (1)")
    parser.add_argument("--deadline", type=float, default=float("inf"), metavar="SECONDS",
                        help="start no run that would end later than this")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder with the data")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="(cpu)")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help="the folder of the results")
    options = parser.parse_args(arguments)
    try:
        for arm in options.arms:
            parse_arm(arm)
    except ValueError as error:
        parser.error(str(error))
    options.rate = options.rate or RATES[options.task, options.optimizer]
    options.end = time.time() + options.deadline
    options.file = options.out / "runs.jsonl"
    return options


def key_of(options: argparse.Namespace) -> dict[str, object]:
    return {name: getattr(options, name) for name in ("task", "size", "optimizer", "rate", "steps", "workers")}


def read(options: argparse.Namespace) -> list[dict]:
    """The runs with these options."""
    lines = options.file.read_text().splitlines() if options.file.exists() else []
    wanted = key_of(options).items()
    return [row for row in map(json.loads, lines) if wanted <= row.items()]


def train(options: argparse.Namespace, arms: list[str]) -> None:
    """The missing runs of these arms, in this process."""
    device = torch.device(options.device)
    torch.set_float32_matmul_precision("high")
    task = TASKS[options.task](options.data, options.size, device)
    network = Network(task.shape, options.workers, device, torch.bfloat16 if options.device == "cuda" else torch.float32)
    probes = sorted({options.steps // 6, options.steps // 2, options.steps - 1})
    optimizer = Optimizer(options.optimizer, options.rate)
    done = {(row["arm"], row["seed"]) for row in read(options)}
    trainers: dict[str, Trainer] = {}
    longest = 0.0
    for seed in range(1, options.seeds + 1):
        for arm in arms:
            if (arm, seed) in done:
                continue
            start = time.time()
            if start + RESERVE * longest > options.end:
                return
            if arm not in trainers:
                trainers[arm] = Trainer(task, network, parse_arm(arm), optimizer, options.steps, probes)
            result = trainers[arm].run(seed)
            seconds = time.time() - start
            longest = max(longest, seconds) if seed == 1 else seconds
            with options.file.open("a") as stream:
                stream.write(json.dumps({**key_of(options), "arm": arm, "seed": seed, **result,
                                         "seconds": round(seconds, 2)}) + "\n")
            print(f"seed {seed} {arm}: loss {result['loss']:.4f}, {seconds:.1f} s", file=sys.stderr, flush=True)


def table(rows: list[dict], arms: list[str]) -> str:
    base = {row["seed"]: row["loss"] for row in rows if row["arm"] == arms[0]}
    lines = [["arm", "seeds", "loss", "excess", "90 % interval", "training excess", "vnmse", "felt error"]]
    for arm in arms:
        own = {row["seed"]: row for row in rows if row["arm"] == arm}
        if not own:
            continue
        excess = paired({seed: row["loss"] for seed, row in own.items()}, base)
        training = paired({seed: row["training_loss"] for seed, row in own.items()},
                          {row["seed"]: row["training_loss"] for row in rows if row["arm"] == arms[0]})

        def errors(name: str, own: dict[int, dict] = own) -> str:
            steps = next(iter(own.values()))["errors"]
            return " ".join(f"{statistics.fmean(row['errors'][step][name] for row in own.values()):.2g}"
                            for step in steps)

        lines.append([
            arm, str(len(own)), f"{statistics.fmean(row['loss'] for row in own.values()):.4f}",
            "-" if excess is None else f"{excess.mean:+.4f}",
            "-" if excess is None or excess.low is None else f"{excess.low:+.4f} to {excess.high:+.4f}",
            "-" if training is None else f"{training.mean:+.4f}", errors("vnmse"), errors("felt")])
    return align(lines, left=1)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    shares = [share for index in range(options.processes) if (share := options.arms[index::options.processes])]
    failed = False
    if len(shares) == 1:
        try:
            train(options, shares[0])
        except DataError as error:
            sys.exit(f"optimizer_study: {error}")
    else:
        context = multiprocessing.get_context("spawn")
        running = [context.Process(target=train, args=(options, share)) for share in shares]
        for process in running:
            process.start()
        for process in running:
            process.join()
            failed |= process.exitcode != 0
    rows = read(options)
    if rows:
        print(f"{options.task}, {options.optimizer} at {options.rate:g}: {rows[0]['values']:,} low-bit values, "
              f"{options.workers} workers, {options.steps} steps; errors at steps {', '.join(rows[0]['errors'])}\n"
              f"{table(rows, options.arms)}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
