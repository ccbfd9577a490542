#!/usr/bin/env python3
"""Trains a small model and writes the gradients of its workers to files, for `nf quality`.

For each step S it writes the gradients after S training steps to OUT/MODEL_S.npy (float32, one row
per worker) and the names and shapes of the parameters to OUT/MODEL_S.json:
    scripts/dump_gradients.py --model gpt --out gradients
    scripts/dump_gradients.py --model resnet --steps 20,300 --out gradients
See docs/real_gradients.md. Needs PyTorch; uses a GPU if there is one.
"""

import argparse
import math
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))  # if the package is not installed

REPORT_EVERY = 50  # steps


class DumpError(Exception):
    pass


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def step_list(text):
    try:
        steps = sorted({int(word) for word in text.split(",")})
    except ValueError:
        steps = [-1]
    if steps[0] < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of steps such as 50,500,1500")
    return steps


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["gpt", "resnet"], required=True)
    parser.add_argument("--size", help="gpt: tiny, small or 25m (25m); resnet: tiny or 18 (18)")
    parser.add_argument("--steps", type=step_list, metavar="S,S,...",
                        help="steps to dump (gpt: 50,500,1500; resnet: 20,300)")
    parser.add_argument("--ranks", type=positive, default=8, help="workers (8)")
    parser.add_argument("--batch", type=positive,
                        help="sequences or images per worker and step (gpt: 8; resnet: 32)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--data", type=Path, metavar="DIR",
                        help="resnet: a directory with CIFAR-100 (default: synthetic images)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(cuda if available, otherwise cpu)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"],
                        help="type of the forward pass (cuda: bf16, cpu: fp32); gradients are FP32")
    options = parser.parse_args(arguments)
    if options.seed < 0:
        parser.error("argument --seed: must not be negative")
    return options


def make_training(options):
    """The training run and the steps to dump."""
    # cuBLAS reads this when it starts; without it, its results vary from run to run.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        import torch

        from gradients.gpt import Gpt
        from gradients.resnet import Resnet
        from gradients.training import Training, make_deterministic
        from neuron_fabric_lab.workloads import DataError
    except ModuleNotFoundError as error:
        raise DumpError(f"the package {error.name} is missing: install torch and numpy, or use a "
                        "Python that has them") from error

    kind = {"gpt": Gpt, "resnet": Resnet}[options.model]
    size = options.size or kind.default_size
    if size not in kind.sizes:
        raise DumpError(f"--size {size}: {kind.name} has the sizes {', '.join(kind.sizes)}")
    if options.data and not kind.takes_data:
        raise DumpError(f"--data is not valid with --model {kind.name}, which trains on the standard library")
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise DumpError("--device cuda: PyTorch finds no CUDA device")
    try:
        workload = kind(size, options.data, options.seed)
    except DataError as error:
        raise DumpError(str(error)) from error

    make_deterministic()
    dtype = options.dtype or ("bf16" if device == "cuda" else "fp32")
    training = Training(workload, ranks=options.ranks, batch=options.batch or kind.default_batch,
                        seed=options.seed, device=device, dtype=dtype)
    elements = sum(math.prod(shape) for _, shape in training.parameters)
    print(f"{kind.name} {size}: {elements:,} parameters, {workload.description}; "
          f"{training.count} per step over {options.ranks} workers, {dtype} on {device}", flush=True)
    return training, options.steps or kind.default_steps


def check_space(folder, needed):
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DumpError(f"{folder} has {free / 1e9:.2f} GB free, but the files need "
                        f"{needed / 1e9:.2f} GB: pass fewer --steps or another --out")


def dump(options):
    training, steps = make_training(options)
    from gradients.npy import dump_bytes, write_dump

    options.out.mkdir(parents=True, exist_ok=True)
    check_space(options.out, len(steps) * dump_bytes(training.parameters, options.ranks))
    started = time.monotonic()

    def report(step, text):
        print(f"step {step:5d}  {text}  ({time.monotonic() - started:.1f} s)", flush=True)

    for step in range(steps[-1] + 1):
        if step in steps:
            loss = training.validation_loss()
            if not math.isfinite(loss):
                raise DumpError(f"step {step}: the loss is {loss}; try another --seed")
            path = options.out / f"{options.model}_{step}.npy"
            write_dump(path, options.model, training.parameters, options.ranks,
                       training.worker_gradients(step))
            report(step, f"validation loss {loss:.4f}, wrote {path}")
        if step < steps[-1]:
            loss = training.advance(step)
            if step % REPORT_EVERY == 0:
                report(step, f"loss {loss.item():.4f}")


def main(arguments=None):
    try:
        dump(parse(arguments))
    except (DumpError, OSError) as error:
        print(f"dump_gradients: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
