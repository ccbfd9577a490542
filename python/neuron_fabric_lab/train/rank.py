"""The work of every rank of `nf train`."""

import math
import os
import shlex
import sys
import time

import torch
import torch.distributed as dist

from neuron_fabric.ranks.job import join, leave

from .checkpoint import Checkpoint
from .compute import compute_seconds
from .options import TrainOptions
from .result import result_of, write_result
from .run import Run, workload_of

SAVE_SECONDS = 30  # of training between checkpoints


def work(options: TrainOptions) -> None:
    device = join(options.device)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    options.out.mkdir(parents=True, exist_ok=True)
    checkpoint = Checkpoint(options.out, options.identity(), command())
    run = Run(options, workload_of(options, device), device)
    if (state := checkpoint.load(device)) is not None:
        run.load_state_dict(state)
    if run.rank == 0 and not options.json:
        print(f"{run.workload.name}: {run.values:,} parameters; {run.workload.description}\n"
              f"{run.ranks} ranks, {run.steps} steps on route {options.route}", flush=True)
        run.show(options.route)
    dist.all_reduce(torch.zeros(1, device=device))  # connect before the first step
    train(run, checkpoint)
    result = result_of(run) | {"command": command()}
    if run.is_over:
        compute = compute_seconds(run)
        result |= {"compute_seconds": compute,
                   "exposed_seconds": max(0.0, result["step_seconds"] - compute)}
    if run.rank == 0:
        write_result(options.out, result)
        if run.is_over:
            checkpoint.remove()
    run.close()
    leave()


def train(run: Run, checkpoint: Checkpoint) -> None:
    """Trains to the end, or until the time is up, and saves a run that is not finished."""
    began = saved = time.monotonic()
    while not run.is_over:
        run.advance()
        now = time.monotonic()
        is_late, is_old = broadcast_from_rank_0(now - began > (run.options.seconds or math.inf),
                                         now - saved > SAVE_SECONDS)
        if (is_late or is_old) and not run.is_over:
            checkpoint.save(len(run.losses), run.state_dict())
            saved = time.monotonic()
        if is_late:
            break


def broadcast_from_rank_0(*flags: bool) -> list[bool]:
    """The same on all ranks, whose clocks differ."""
    values = torch.tensor(flags)
    dist.broadcast(values, src=0)
    return values.tolist()


def command() -> str:
    """The command that repeats this run. A program that starts it for a user sets NF_COMMAND."""
    return os.environ.get("NF_COMMAND") or shlex.join(["nf", "train", *sys.argv[1:]])
