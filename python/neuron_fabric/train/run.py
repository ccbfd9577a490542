"""What every rank of a training run does. Everything but files and times is the same on all of them."""

import json
import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.job import arithmetic, join, leave, wait_for
from neuron_fabric.progress import Progress
from neuron_fabric.workloads import make_workload
from neuron_fabric.workloads.training import evaluate
from neuron_fabric.workloads.workload import Batch, Workload

from .checkpoint import Checkpoint, check_same, remove
from .options import TrainOptions
from .result import is_finished, read_result, seconds_to, surroundings, write_result
from .routes import attach
from .traffic import Traffic

READ_EVERY = 25     # steps after which losses are read: nobody waits for the device at each
SAVE_SECONDS = 30   # of training between two checkpoints
COMPUTE_STEPS = 10  # of the same model without sums, to tell what a step waits for


class Run:
    """One model on its way."""

    def __init__(self, options: TrainOptions, device: torch.device) -> None:
        self.options, self.device = options, device
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.workload = make_workload(options.workload, options.size, options.data).to(device)
        self.workload.batch_size = options.batch or self.workload.batch_size
        self.steps = steps_of(options, self.workload, self.ranks)
        self.eval_every = options.eval_every or self._usual_distance()
        self.model = self.workload.make_model(options.seed).to(device)
        if self.workload.has_images and device.type == "cuda":
            self.model = self.model.to(memory_format=torch.channels_last)
        # Statistics of norms are rank 0's, as the evaluation is: sending them would cost time.
        self.ddp = DistributedDataParallel(self.model, gradient_as_bucket_view=True,
                                           broadcast_buffers=False)
        self.fabric = attach(self.ddp, options)
        self.optimizer = self.workload.make_optimizer(self.model)
        self.checkpoint = Checkpoint(options.out, options.identity())
        parameters = list(self.model.parameters())
        self.values = sum(p.numel() for p in parameters)
        self.dense_bytes = 2 * (self.ranks - 1) / self.ranks * sum(
            p.numel() * p.element_size() for p in parameters)

        self.losses: list[float] = []         # means over ranks
        self.curve: list[dict[str, Any]] = []  # evaluations
        self.seconds = 0.0                    # of training, without evaluations
        self.step_times: list[float] = []     # means of some steps each
        self.before = Traffic()               # of earlier parts of the run
        self.diverged = False
        self._first = 0  # step of this part
        self._progress = None

    def _usual_distance(self) -> int:
        epoch = self.workload.examples // (self.workload.batch_size * self.ranks)
        tenth = max(1, self.steps // 10)
        return min(max(epoch, tenth), self.steps) if epoch else tenth

    # The way.

    def train(self) -> None:
        """To the end, or until time is up."""
        began = saved = time.monotonic()
        batches = self.workload.batches(self.rank, self.ranks, self.options.seed,
                                        start=len(self.losses))
        while len(self.losses) < self.steps and not self.diverged:
            self._some_steps(batches, self._next_stop())
            step = len(self.losses)
            if step % self.eval_every == 0 or step == self.steps or self.diverged:
                self._evaluate()
            if step == self.steps or self.diverged:
                break
            now = time.monotonic()
            if self._says_rank_0(now - began > (self.options.seconds or math.inf)):
                break
            if self._says_rank_0(now - saved > SAVE_SECONDS):
                self.save()
                saved = time.monotonic()

    def _next_stop(self) -> int:
        step = len(self.losses)
        return min((step // distance + 1) * distance for distance in (READ_EVERY, self.eval_every)
                   ) if step < self.steps else step

    def _some_steps(self, batches: Iterator[Batch], stop: int) -> None:
        wait_for(self.device)
        began = time.perf_counter()
        first, stop = len(self.losses), min(stop, self.steps)
        pending = [self._one_step(step, next(batches), is_last=step + 1 == stop)
                   for step in range(first, stop)]
        means = torch.stack(pending).float()
        dist.all_reduce(means)
        self.losses += (means / self.ranks).tolist()
        taken = time.perf_counter() - began
        self.seconds += taken
        self.step_times.append(taken / (stop - first))
        self.diverged = not all(map(math.isfinite, self.losses[first:]))
        if self._progress is not None:
            self._progress(len(self.losses), self.losses[-1])

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
            # Both wait for the device, so it is asked now and then only.
            self.fabric.observe(loss)
            should_step = self.fabric.should_step()
        if should_step:
            self.optimizer.step()
        return loss.detach()

    def _evaluate(self) -> None:
        with arithmetic(self.device):
            judged = evaluate(self.workload, self.model)
        self.curve.append({"step": len(self.losses), "seconds": self.seconds,
                           "bytes": self.traffic().bytes} | asdict(judged))

    def _says_rank_0(self, word: bool) -> bool:
        said = torch.tensor([float(word)])
        dist.broadcast(said, src=0)
        return bool(said.item())

    def show(self, title: str) -> None:
        self._progress = Progress(title, self.steps)

    # What it leaves.

    def traffic(self) -> Traffic:
        if self.fabric is None or not self.options.is_attached:
            return Traffic.of_plain(self.options.route, len(self.losses), self.dense_bytes)
        return Traffic.of_summary(self.fabric.summary().to_dict()).after(self.before)

    def resume(self) -> None:
        state = self.checkpoint.load(self.device)
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.losses, self.curve, self.seconds = state["losses"], state["curve"], state["seconds"]
        self.step_times = state["step_times"]
        self.before = Traffic(**json.loads(state["traffic"]))
        if self.fabric is not None:
            self.fabric.load_state_dict(state["fabric"])

    def save(self) -> None:
        self.checkpoint.save(len(self.losses), {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
            "losses": self.losses, "curve": self.curve, "seconds": self.seconds,
            "step_times": self.step_times, "traffic": json.dumps(self.traffic().to_dict()),
            "fabric": self.fabric.state_dict() if self.fabric is not None else None})

    def compute_seconds(self) -> float:
        """Of a step that sums nothing: the rest of a step is what it waits for. Collective."""
        batches = self.workload.batches(self.rank, self.ranks, self.options.seed, start=self.steps)
        times = []
        for _ in range(COMPUTE_STEPS):
            wait_for(self.device)
            dist.barrier()
            began = time.perf_counter()
            self.optimizer.zero_grad()
            with self.ddp.no_sync(), arithmetic(self.device):
                loss = self.workload.loss(self.ddp, next(batches))
            with self.ddp.no_sync():
                loss.backward()
            self.optimizer.step()
            wait_for(self.device)
            times.append(time.perf_counter() - began)
        slowest = torch.tensor(times[2:])
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        return statistics.median(slowest.tolist())

    def result(self) -> dict[str, Any]:
        """Before compute_seconds(), which changes the model."""
        options, traffic, last = self.options, self.traffic(), (self.curve or [{}])[-1]
        steps = max(1, len(self.losses))
        result = {
            "workload": options.workload, "route": options.route, "seed": options.seed,
            "ranks": self.ranks, "accuracy": last.get("accuracy"), "loss": last.get("loss"),
            "bytes": traffic.bytes / steps, "bytes_ratio": traffic.bytes_ratio,
            "bytes_up_ratio": traffic.bytes_up_ratio,
            "step_seconds": statistics.median(self.step_times) if self.step_times else None,
            "exposed_seconds": None, "seconds_to_target": seconds_to(options.target, self.curve),
            "target": options.target, "size": self.workload.size_name, "admit": options.admit,
            "device": self.device.type, "batch": self.workload.batch_size, "steps": len(self.losses),
            "wanted_steps": self.steps, "parameters": self.values, "dense_bytes": self.dense_bytes,
            "seconds": self.seconds, "finished": len(self.losses) == self.steps or self.diverged,
            "diverged": self.diverged, "curve": self.curve, "losses": self.losses,
            "regions": traffic.regions, "fallbacks": traffic.fallbacks,
            "options": self.checkpoint.identity} | surroundings(self.device)
        if self.fabric is not None:
            result |= {"place": self.fabric.place, "held_bytes": self.fabric.held_bytes,
                       "topology": self.fabric.topology}
        if self.device.type == "cuda":
            result["peak_allocated"] = torch.cuda.max_memory_allocated(self.device)
        return result


def steps_of(options: TrainOptions, workload: Workload, ranks: int) -> int:
    if options.epochs is None:
        return options.steps or workload.steps
    if workload.examples == 0:
        raise ValueError(f"{workload.name} has no epochs; give --steps")
    return max(1, round(options.epochs * workload.examples / (workload.batch_size * ranks)))


def work(options: TrainOptions) -> None:
    """A rank's part, from joining the others to leaving them."""
    device = join(options.device)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    options.out.mkdir(parents=True, exist_ok=True)
    check_same(options.out, options.identity())
    run = Run(options, device)
    run.resume()
    if run.rank == 0 and not options.json:
        print(f"{run.workload.name}: {run.values:,} parameters; {run.workload.description}\n"
              f"{run.ranks} ranks, {run.steps} steps along {options.route}", flush=True)
        run.show(options.route)
    dist.all_reduce(torch.zeros(1, device=device))  # connections are not part of the first step
    run.train()
    result = run.result()
    if result["finished"]:
        compute = run.compute_seconds()
        result |= {"compute_seconds": compute, "exposed_seconds": max(
            0.0, result["step_seconds"] - compute)}
    else:
        run.save()
    if run.rank == 0:
        write_result(options.out, result)
        if result["finished"]:
            remove(options.out)
    if run.fabric is not None:
        run.fabric.close()
    leave()


def is_done(options: TrainOptions) -> bool:
    return is_finished(read_result(options.out), options.identity())
