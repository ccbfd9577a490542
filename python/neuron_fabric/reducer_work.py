"""One call of a Reducer: its tensors as contiguous buckets, and the handle that waits for them."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from neuron_fabric import _C
from neuron_fabric.model import ROUTED_TYPES


@dataclass
class TensorBucket:
    """Tensors of one type in one contiguous buffer."""

    tensors: list[torch.Tensor]
    buffer: torch.Tensor
    slots: list[tuple[int, int, int]] | None = field(default=None)  # of Runtime.run_values()

    def start(self, runtime: _C.Runtime, index: int, is_last: bool, is_mean: bool) -> torch.futures.Future:
        return runtime.run_values(self.buffer, index, is_last, is_mean, self.slots)

    def start_dense(self, group: dist.ProcessGroup, is_mean: bool) -> torch.futures.Future:
        """Without a runtime."""
        if is_mean:
            self.buffer.mul_(1.0 / dist.get_world_size(group))
        work = dist.all_reduce(self.buffer, group=group, async_op=True)
        return work.get_future()

    def unpack(self) -> list[torch.Tensor]:
        """Copies the result to the tensors, once the future is complete."""
        if self.buffer.data_ptr() != self.tensors[0].data_ptr():
            parts = self.buffer.split([tensor.numel() for tensor in self.tensors])
            for tensor, part in zip(self.tensors, parts, strict=True):
                tensor.copy_(part.view(tensor.shape))
        return self.tensors


def pack(tensors: Mapping[str, torch.Tensor], index: Mapping[str, int]) -> list[TensorBucket]:
    """Buckets in an order that depends on names and types only. A single contiguous tensor is used in place.

    index: the parameters of the runtime, by name. Tensors of other types have a bucket without slots.
    """
    by_type: dict[torch.dtype, list[str]] = {}
    for name, tensor in tensors.items():
        by_type.setdefault(tensor.dtype, []).append(name)
    buckets = []
    for dtype in sorted(by_type, key=str):
        names = by_type[dtype]
        own = [tensors[name] for name in names]
        is_single = len(own) == 1 and own[0].is_contiguous()
        buffer = own[0].view(-1) if is_single else torch.cat([tensor.reshape(-1) for tensor in own])
        bucket = TensorBucket(own, buffer)
        if dtype in ROUTED_TYPES:
            bucket.slots, offset = [], 0
            for name, tensor in zip(names, own, strict=True):
                bucket.slots.append((index[name], offset, tensor.numel()))
                offset += tensor.numel()
        buckets.append(bucket)
    return buckets


class ReducerWork:
    """The handle of a Reducer's call."""

    def __init__(self, buckets: Sequence[TensorBucket], started: Sequence[torch.futures.Future]) -> None:
        self._started = list(started)
        self._unpacked = [future.then(functools.partial(_unpack, bucket))
                          for bucket, future in zip(buckets, started, strict=True)]
        self._all = torch.futures.collect_all(self._unpacked)

    def wait(self) -> None:
        """Waits until the tensors hold the result; on a device, the current stream waits. Raises
        RuntimeError if the call failed."""
        for future in (*self._started, *self._unpacked):  # errors of the former have no traceback inside
            future.wait()

    def is_completed(self) -> bool:
        return all(future.done() for future in self._unpacked)

    def get_future(self) -> torch.futures.Future:
        """Completes when all tensors hold the result."""
        return self._all


def _unpack(bucket: TensorBucket, done: torch.futures.Future) -> list[torch.Tensor]:
    done.value()  # raises the error of the bucket
    return bucket.unpack()
