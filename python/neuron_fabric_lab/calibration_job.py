"""The calibration of a workload: the work of every rank of the job."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.calibration.calibrator import Calibrator
from neuron_fabric.calibration.watch import CalibrationConsole
from neuron_fabric.ranks import job
from neuron_fabric.support.files import write_atomic
from neuron_fabric_lab.workloads import Workload, make_workload

OUTCOME = "outcome.json"
PROFILE = "profile.json"
JUDGES = 8  # batches per rank that no branch trains on, from the same data
JUDGES_ORDER = 10**6

_CIFAR = {"dense_steps": 130, "branch_steps": 60, "repeats": 2, "target": "0.01"}

# Numbers of steps, by workload and size. Sizes that are not listed use the first entry.
PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "digits": {"small": {"candidates": ("g_binary", "g_ternary", "waterfill:4", "waterfill:5"),
                         "dense_steps": 30, "branch_steps": 30, "repeats": 3}},
    "gpt": {"mini": {"dense_steps": 40, "branch_steps": 30, "repeats": 2, "target": "0.5%"},
            "124m": {"dense_steps": 60, "branch_steps": 30, "repeats": 2, "target": "0.4%"},
            "1b": {"dense_steps": 40, "branch_steps": 20, "repeats": 2, "target": "0.4%"}},
    "cifar100": {"full": _CIFAR},
    "cifar10": {"full": _CIFAR},
    "sst2": {"minilm": {"dense_steps": 100, "warm_up_steps": 50, "branch_steps": 60,
                        "repeats": 2, "target": "0.01"}},
}


@dataclass(frozen=True)
class Request:
    """The request of `nf calibrate`."""

    workload: str
    size: str | None
    data: str | None
    device: str
    seed: int
    batch: int | None
    out: Path
    resume: bool
    keep: bool
    quiet: bool
    command: str
    options: dict[str, Any] = field(default_factory=dict)  # settings of the Calibrator


def plan_of(workload: str, size: str | None) -> dict[str, Any]:
    """The default settings of a workload."""
    plans = PLANS.get(workload)
    if plans is None:
        return {}
    return plans.get(size or "") or next(iter(plans.values()))


def training_of(request: Request, workload: Workload) -> str:
    """The conditions of the evidence, besides model and settings."""
    words = f"{request.workload}, batches of {workload.batch_size}"
    if workload.takes_data and request.data is not None:
        words += f", data in {Path(request.data).absolute()}"
    return words


def calibrate(request: Request) -> None:
    """Runs on every rank of a job. Rank 0 writes profile and outcome to the folder."""
    device = job.join(request.device)
    workload = make_workload(request.workload, request.size, request.data, request.batch)
    outcome = _calibrator(request, workload, device).run()
    if dist.get_rank() == 0:
        outcome.save(request.out / PROFILE, f"{request.workload}, calibrated", command=request.command,
                     workload=request.workload, size=request.size or workload.default_size)
        write_atomic(request.out / OUTCOME, json.dumps(
            {"workload": request.workload, "size": request.size, "seed": request.seed}
            | outcome.to_dict()))
    job.leave()


def _calibrator(request: Request, workload: Workload, device: torch.device) -> Calibrator:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    workload.to(device)
    model = workload.make_model(request.seed).to(device)
    ddp = DistributedDataParallel(model)
    optimizer = workload.make_optimizer(model)
    first_order = request.seed * 10 * JUDGES_ORDER

    def step(batch: Any) -> torch.Tensor:
        optimizer.zero_grad()
        with job.arithmetic(device):
            loss = workload.loss(ddp, batch)
        loss.backward()
        optimizer.step()
        return loss

    judges = [batch for _, batch in
              zip(range(JUDGES), workload.batches(rank, ranks, first_order + JUDGES_ORDER),
                  strict=False)]

    @torch.no_grad()
    def judge() -> float:
        model.eval()
        with job.arithmetic(device):
            total = sum(workload.loss(model, batch).float() for batch in judges)
        model.train()
        return total.item() / len(judges)

    options = {"warm_up_steps": workload.warm_up} | plan_of(request.workload, request.size)
    watch = CalibrationConsole() if rank == 0 and not request.quiet else None
    return Calibrator(
        ddp, optimizer, step,
        lambda batch_order: workload.batches(rank, ranks, first_order + batch_order),
        judge=judge, out=request.out if request.keep else None, resume=request.resume, seed=request.seed,
        training=training_of(request, workload), watch=watch,
        **(options | request.options))
