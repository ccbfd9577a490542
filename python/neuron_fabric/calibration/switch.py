"""How the gradients of a model under calibration travel, to be changed between any two steps.

DDP takes one communication hook for good. This one passes every bucket to whichever way is chosen
at the moment.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.session import Session

Sum = torch.futures.Future[torch.Tensor]


class Way(Protocol):
    """Averages a bucket over all ranks, in place."""

    def __call__(self, bucket: dist.GradBucket) -> Sum: ...


class DenseWay:
    """As DDP itself does it."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group

    def __call__(self, bucket: dist.GradBucket) -> Sum:
        values = bucket.buffer().div_(dist.get_world_size(self.group))
        future = dist.all_reduce(values, group=self.group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])


class SessionWay:
    """As an attached model's gradients travel."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __call__(self, bucket: dist.GradBucket) -> Sum:
        # DDP wants a value made in Python.
        return self.session.runtime.run(bucket).then(lambda done: done.value())


class Switch:
    """The hook of one DDP model; dense unless `through` says otherwise."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.way: Way = DenseWay(ddp.process_group)
        ddp.register_comm_hook(self, _hook)

    @contextmanager
    def through(self, way: Way) -> Iterator[None]:
        before, self.way = self.way, way
        try:
            yield
        finally:
            self.way = before


# DDP reads these annotations: they must be the classes themselves.
def _hook(switch: Switch, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return switch.way(bucket)
