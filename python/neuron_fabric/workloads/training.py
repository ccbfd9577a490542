"""Trains a workload under DDP, in every process of a job that torch.distributed has joined."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .workload import Evaluation, Workload

Progress = Callable[[int, float], None]  # takes steps done and this rank's last loss


@dataclass(frozen=True)
class Result:
    """What a run came to. Times and bytes are this rank's."""

    accuracy: float
    loss: float
    bytes: float         # sent in a step, the mean
    dense_bytes: float   # that an FP32 all-reduce sends in a step
    step_seconds: float  # the median
    seconds: float       # of all steps
    summary: dict[str, Any] | None  # of the fabric, where there was one


def train(
    workload: Workload,
    *,
    steps: int,
    seed: int,
    attach: dict[str, Any] | None = None,
    progress: Progress = lambda step, loss: None,
) -> Result:
    """Trains from the first step to the last, and judges. Collective.

    attach: the options of nf.attach(), or None for plain DDP.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = workload.make_model(seed)
    ddp = DistributedDataParallel(model)
    fabric = None
    if attach is not None:
        import neuron_fabric as nf  # plain DDP needs no extension

        fabric = nf.attach(ddp, **attach)
    optimizer = workload.make_optimizer(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: workload.rate(s, steps))

    times = []
    dist.barrier()
    started = time.perf_counter()
    for step, batch in zip(range(steps), workload.batches(rank, ranks, seed)):
        before = time.perf_counter()
        optimizer.zero_grad()
        loss = workload.loss(ddp, batch)
        loss.backward()
        if fabric is not None:
            fabric.observe(loss)
        if fabric is None or fabric.should_step():
            optimizer.step()
        schedule.step()
        times.append(time.perf_counter() - before)
        progress(step + 1, loss.item())
    seconds = time.perf_counter() - started

    dense_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    dense_bytes *= 2 * (ranks - 1) / ranks
    summary = None
    if fabric is not None:
        summary = fabric.summary().to_dict()
        fabric.close()
    judged = evaluate(workload, model)
    return Result(
        accuracy=judged.accuracy,
        loss=judged.loss,
        bytes=summary["bytes"] / steps if summary else dense_bytes,
        dense_bytes=dense_bytes,
        step_seconds=statistics.median(times),
        seconds=seconds,
        summary=summary,
    )


def evaluate(workload: Workload, model: torch.nn.Module) -> Evaluation:
    """Rank 0's judgement, on all ranks: their models are the same. Collective."""
    judged = torch.zeros(2, dtype=torch.float64)
    if dist.get_rank() == 0:
        evaluation = workload.evaluate(model)
        judged = torch.tensor([evaluation.accuracy, evaluation.loss], dtype=torch.float64)
    dist.broadcast(judged, src=0)
    return Evaluation(accuracy=judged[0].item(), loss=judged[1].item())
