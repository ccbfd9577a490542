"""The communication hook of a model under calibration, whose route can change between any two steps.

DDP accepts one communication hook for the lifetime of a model. This one passes every bucket to the
current route.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.session import Session

Sum = torch.futures.Future[torch.Tensor]


class Reduction(Protocol):
    """Averages a bucket over all ranks, in place."""

    def __call__(self, bucket: dist.GradBucket) -> Sum: ...


@runtime_checkable
class Scaler(Protocol):
    """A torch.amp.GradScaler."""

    def get_scale(self) -> float: ...


def set_scale(scaler: Scaler | None, bucket: dist.GradBucket, sessions: Iterable[Session]) -> None:
    """Sets the loss scale, before the first bucket of a step."""
    if scaler is None or bucket.index() != 0:
        return
    scale = scaler.get_scale()
    for session in sessions:
        session.runtime.set_loss_scale(scale)


class DenseReduction:
    """Dense, as DDP does it."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group

    def __call__(self, bucket: dist.GradBucket) -> Sum:
        values = bucket.buffer().div_(dist.get_world_size(self.group))
        future = dist.all_reduce(values, group=self.group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])


class SessionReduction:
    """As for an attached model."""

    def __init__(self, session: Session, scaler: Scaler | None = None) -> None:
        self.session = session
        self.scaler = scaler

    def __call__(self, bucket: dist.GradBucket) -> Sum:
        set_scale(self.scaler, bucket, [self.session])
        # DDP expects a value made in Python.
        return self.session.runtime.run(bucket).then(lambda done: done.value())


class Switch:
    """The hook of one DDP model; dense outside `through`."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.reduction: Reduction = DenseReduction(ddp.process_group)
        ddp.register_comm_hook(self, _hook)

    @contextmanager
    def through(self, reduction: Reduction) -> Iterator[None]:
        before, self.reduction = self.reduction, reduction
        try:
            yield
        finally:
            self.reduction = before


# DDP reads these annotations: they must be the classes themselves.
def _hook(switch: Switch, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return switch.reduction(bucket)
