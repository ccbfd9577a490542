"""The time of a step without communication: the rest of a step is waiting."""

import statistics
import time

import torch
import torch.distributed as dist

from neuron_fabric.ranks.job import arithmetic, wait_for

from .run import Run

STEPS = 10
FIRST_STEPS = 2  # slower than the others


def compute_seconds(run: Run) -> float:
    """The median of the slowest rank. Changes the model of each rank separately, so training must not
    continue after it. Collective."""
    batches = run.workload.batches(run.rank, run.ranks, run.options.seed, start=run.steps)
    times = []
    for _, batch in zip(range(STEPS), batches):
        wait_for(run.device)
        dist.barrier()
        began = time.perf_counter()
        run.optimizer.zero_grad()
        with run.ddp.no_sync():
            with arithmetic(run.device):
                loss = run.workload.loss(run.ddp, batch)
            loss.backward()
        run.optimizer.step()
        wait_for(run.device)
        times.append(time.perf_counter() - began)
    slowest = torch.tensor(times[FIRST_STEPS:])
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return statistics.median(slowest.tolist())
