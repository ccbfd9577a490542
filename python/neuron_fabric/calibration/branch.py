"""Short training runs from a snapshot, each with gradients on another route."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from neuron_fabric.calibration.snapshot import Stateful
from neuron_fabric.calibration.switch import Scaler

TAIL = 4  # without judge(), the result is the mean loss of the last 1 / TAIL of a branch


@dataclass
class Training:
    """A user's training loop, as the separate parts that a calibration needs.

    step: one training step with one batch: zero_grad, forward, backward, optimizer.step().
        Returns the loss.
    batches: the batches of this rank, in an order that depends only on the given number.
    judge: the loss of the current model, lower is better; the same batches every time. It is called
        on every rank, and the mean over ranks counts. Without it, the losses of the last steps count.
    stateful: other objects to restore before a branch, for example a GradScaler. The loss scale of an
        object with get_scale() is read at every step.
    """

    ddp: torch.nn.parallel.DistributedDataParallel
    optimizer: torch.optim.Optimizer
    step: Callable[[Any], torch.Tensor]
    batches: Callable[[int], Iterable[Any]]
    judge: Callable[[], float] | None = None
    stateful: list[Stateful] = field(default_factory=list)

    @property
    def parts(self) -> list[Stateful]:
        return [self.ddp.module, self.optimizer, *self.stateful]

    @property
    def scaler(self) -> Scaler | None:
        return next((part for part in self.stateful if isinstance(part, Scaler)), None)

    def endless(self, order: int) -> Iterator[Any]:
        """The batches of an order, repeated."""
        for _ in itertools.count():
            empty = True
            for batch in self.batches(order):
                empty = False
                yield batch
            if empty:
                raise ValueError(f"batches({order}) has no batch")

    def stepper(self, order: int, rates: Iterable[float]) -> Iterator[torch.Tensor]:
        """Runs one step per iteration, on the batches of an order, at the learning rate times the next
        of `rates`. Yields this rank's loss."""
        given = [group["lr"] for group in self.optimizer.param_groups]
        try:
            for rate, batch in zip(rates, self.endless(order), strict=False):
                for group, full in zip(self.optimizer.param_groups, given, strict=True):
                    group["lr"] = full * rate
                yield self.step(batch).detach()
        finally:
            for group, full in zip(self.optimizer.param_groups, given, strict=True):
                group["lr"] = full

    def mean(self, losses: list[torch.Tensor]) -> list[float]:
        """The mean over ranks, so that all ranks decide by the same value."""
        values = torch.stack([loss.float().mean() for loss in losses]).double()
        dist.all_reduce(values, group=self.ddp.process_group)
        dist.broadcast(values, group_src=0, group=self.ddp.process_group)
        return (values / dist.get_world_size(self.ddp.process_group)).tolist()

    def loss(self, losses: list[float]) -> float | None:
        """The result of a branch; None if it diverged."""
        if self.judge is not None and math.isfinite(losses[-1]):
            device = next(self.ddp.module.parameters()).device
            found = self.mean([torch.tensor(float(self.judge()), device=device)])[0]
        else:
            tail = losses[-max(1, len(losses) // TAIL):]
            found = sum(tail) / len(tail)
        return found if math.isfinite(found) else None


def annealing(steps: int) -> list[float]:
    """Factors that lower the learning rate to zero: the noise of a high rate would hide a lasting
    increase of the loss."""
    return [1 - step / steps for step in range(steps)]


def warming_up(steps: int, warm_up: int) -> list[float]:
    return [min(1.0, (step + 1) / max(1, warm_up)) for step in range(steps)]
