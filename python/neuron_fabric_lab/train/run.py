"""One model in training. Everything except times is the same on all ranks."""

import math
import os
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.ranks.job import arithmetic, wait_for
from neuron_fabric.support.provenance import commit
from neuron_fabric_lab.progress import Progress
from neuron_fabric_lab.workloads import make_workload
from neuron_fabric_lab.workloads.workload import Batch, Workload

from .options import TrainOptions
from .routes import attach
from .traffic import Traffic

SHARED = "NF_SHARED_MACHINE"  # set if several runs are started at the same time
READ_EVERY = 25  # steps between reads of losses, which synchronise with the device


class Run:
    """A workload, trained with the given options, in every process of a job that has initialised
    torch.distributed:

        run = Run(options, workload_of(options, device), device)
        while not run.is_over:
            run.advance()
        run.close()
    """

    def __init__(self, options: TrainOptions, workload: Workload, device: torch.device) -> None:
        self.options, self.workload, self.device = options, workload, device
        self.identity = options.identity()  # now: a profile may be another file when the run ends
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.steps = steps_of(options, workload, self.ranks)
        self.eval_every = options.eval_every or self._default_eval_interval()
        self.model = workload.make_model(options.seed).to(device)
        if workload.has_images and device.type == "cuda":
            self.model = self.model.to(memory_format=torch.channels_last)
        # Statistics of norms come from rank 0, as does the evaluation: sending them would take time.
        self.ddp = DistributedDataParallel(self.model, gradient_as_bucket_view=True,
                                           broadcast_buffers=False)
        self.fabric = attach(self.ddp, options)
        self.optimizer = workload.make_optimizer(self.model)
        parameters = list(self.model.parameters())
        self.values = sum(p.numel() for p in parameters)
        self.dense_bytes = 2 * (self.ranks - 1) / self.ranks * sum(
            p.numel() * p.element_size() for p in parameters)

        self.losses: list[float] = []          # per step, the mean over ranks
        self.curve: list[dict[str, Any]] = []  # evaluations
        self.seconds = 0.0                     # of training, without evaluations
        self.step_times: list[float] = []      # each the mean of some steps
        self.is_beside_others = SHARED in os.environ  # true if any part of the run shared the machine
        self.commits = list(filter(None, [commit()]))  # of all parts of the run
        self.diverged = False
        self._traffic_before = Traffic()       # of earlier parts of the run
        self._progress: Progress | None = None

    def _default_eval_interval(self) -> int:
        epoch = self.workload.examples // (self.workload.batch_size * self.ranks)
        tenth = max(1, self.steps // 10)
        return min(max(epoch, tenth), self.steps) if epoch else tenth

    def show(self, title: str) -> None:
        """Shows progress from now on."""
        self._progress = Progress(title, self.steps)

    @property
    def is_over(self) -> bool:
        return len(self.losses) == self.steps or self.diverged

    def advance(self) -> None:
        """Some steps, and an evaluation if one is due. Collective."""
        first = len(self.losses)
        stop = min(self.steps, *((first // distance + 1) * distance
                                 for distance in (READ_EVERY, self.eval_every)))
        self._run_steps(first, stop)
        if stop % self.eval_every == 0 or self.is_over:
            self._evaluate()

    def _run_steps(self, first: int, stop: int) -> None:
        batches = self.workload.batches(self.rank, self.ranks, self.options.seed, start=first)
        wait_for(self.device)
        began = time.perf_counter()
        pending = []
        for step, batch in zip(range(first, stop), batches):
            is_last = step + 1 == stop
            pending.append(self._one_step(step, batch, is_last))
            if self._progress is not None and (self.device.type == "cpu" or is_last):
                self._progress(step + 1, pending[-1].item())
        means = torch.stack(pending).float()
        dist.all_reduce(means)
        self.losses += (means / self.ranks).tolist()
        taken = time.perf_counter() - began
        self.seconds += taken
        self.step_times.append(taken / (stop - first))
        self.diverged = not all(map(math.isfinite, self.losses[first:]))

    def _one_step(self, step: int, batch: Batch, is_last: bool) -> torch.Tensor:
        for group in self.optimizer.param_groups:
            base = group.setdefault("base_rate", group["lr"])
            group["lr"] = base * self.workload.rate(step, self.steps)
        if step == self.options.breach_at and self.rank == 0 and self.fabric is not None:
            self.fabric.report_capacity_breach()
        self.optimizer.zero_grad()
        with arithmetic(self.device):
            loss = self.workload.loss(self.ddp, batch)
        loss.backward()
        should_step = True
        if self.fabric is not None and (self.device.type == "cpu" or is_last):
            # Both synchronise with the device, so they run rarely.
            self.fabric.observe(loss)
            should_step = self.fabric.should_step()
        if should_step:
            self.optimizer.step()
        return loss.detach()

    def _evaluate(self) -> None:
        """Rank 0 evaluates for all ranks: their models are the same."""
        judged = torch.zeros(2, dtype=torch.float64)
        if self.rank == 0:
            with arithmetic(self.device):
                own = self.workload.evaluate(self.model)
            judged = torch.tensor([own.accuracy, own.loss], dtype=torch.float64)
        dist.broadcast(judged, src=0)
        accuracy, loss = judged.tolist()
        self.curve.append({"step": len(self.losses), "seconds": self.seconds,
                           "bytes": self.traffic().bytes, "accuracy": accuracy, "loss": loss})

    def traffic(self) -> Traffic:
        """The traffic of this rank, over all parts of the run."""
        if self.fabric is None:
            return Traffic.of_plain(self.options.route, len(self.losses), self.dense_bytes)
        return Traffic.of_summary(self.fabric.summary().to_dict()).after(self._traffic_before)

    def state_dict(self) -> dict[str, Any]:
        """The state of this rank, to continue from."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                "losses": self.losses, "curve": self.curve, "seconds": self.seconds,
                "step_times": self.step_times, "shared_machine": self.is_beside_others,
                "commits": self.commits,
                "traffic": self.traffic().to_dict(),
                "fabric": self.fabric.state_dict() if self.fabric is not None else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Before the first step. Collective."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.losses, self.curve, self.seconds = state["losses"], state["curve"], state["seconds"]
        self.step_times = state["step_times"]
        self.is_beside_others |= state.get("shared_machine", False)
        self.commits = list(dict.fromkeys([*state.get("commits", []), *self.commits]))
        self._traffic_before = Traffic(**state["traffic"])
        if self.fabric is not None:
            self.fabric.load_state_dict(state["fabric"])

    def close(self) -> None:
        """Ends telemetry and threads."""
        if self.fabric is not None:
            self.fabric.close()


def workload_of(options: TrainOptions, device: torch.device) -> Workload:
    return make_workload(options.workload, options.size, options.data, options.batch).to(device)


def steps_of(options: TrainOptions, workload: Workload, ranks: int) -> int:
    if options.epochs is None:
        return options.steps or workload.steps
    if workload.examples == 0:
        raise ValueError(f"{workload.name} has no epochs; give --steps")
    return max(1, round(options.epochs * workload.examples / (workload.batch_size * ranks)))
