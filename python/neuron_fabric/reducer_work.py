"""One call of a Reducer: its tensors as contiguous buckets, and the handle that waits for them."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from neuron_fabric import _C
from neuron_fabric.model import ROUTED_TYPES


@dataclass
class TensorBucket:
    """Tensors of one type in one contiguous buffer."""

    tensors: dict[str, torch.Tensor]  # receive the result
    buffer: torch.Tensor
    offsets: list[int]  # of the result of each tensor in the buffer
    slots: list[tuple[int, int, int]] | None = None  # of Runtime.run_values()
    scatters: bool = False  # the buffer is one row per rank

    def start(self, runtime: _C.Runtime, index: int, is_last: bool, is_mean: bool) -> torch.futures.Future:
        return runtime.run_values(self.buffer, index, is_last, is_mean, self.slots)

    def start_dense(self, group: dist.ProcessGroup, is_mean: bool) -> torch.futures.Future:
        """Without a runtime."""
        if self.scatters:
            return self._scatter_dense(group, is_mean)
        if is_mean:
            self.buffer.mul_(1.0 / dist.get_world_size(group))
        return dist.all_reduce(self.buffer, group=group, async_op=True).get_future()

    def _scatter_dense(self, group: dist.ProcessGroup, is_mean: bool) -> torch.futures.Future:
        """Waits, since Gloo's reduce-scatter has no future; on a device, the current stream waits."""
        row = self.buffer.view(dist.get_world_size(group), -1)[dist.get_rank(group)]
        own = torch.empty_like(row)
        dist.reduce_scatter_tensor(own, self.buffer, dist.ReduceOp.AVG if is_mean else dist.ReduceOp.SUM, group)
        row.copy_(own)
        future = torch.futures.Future(devices=[] if own.is_cpu else [own.device])
        future.set_result(self.buffer)
        return future

    def unpack(self) -> dict[str, torch.Tensor]:
        """Copies the result to the tensors, once the future is complete."""
        for tensor, offset in zip(self.tensors.values(), self.offsets, strict=True):
            if tensor.data_ptr() != self.buffer.data_ptr():
                tensor.copy_(self.buffer[offset:offset + tensor.numel()].view(tensor.shape))
        return self.tensors


def pack(tensors: Mapping[str, torch.Tensor], index: Mapping[str, int]) -> list[TensorBucket]:
    """Buckets in an order that depends on names and types only. A single contiguous tensor is used in place.

    index: the parameters of the runtime, by name. Tensors of other types have a bucket without slots.
    """
    buckets = []
    for dtype, own in _by_type(tensors):
        offsets = [0, *itertools.accumulate(tensor.numel() for tensor in own.values())][:-1]
        [first, *others] = own.values()
        is_single = not others and first.is_contiguous()
        buffer = first.view(-1) if is_single else torch.cat([tensor.reshape(-1) for tensor in own.values()])
        slots = [(index[name], offset, tensor.numel())
                 for (name, tensor), offset in zip(own.items(), offsets, strict=True)
                 if dtype in ROUTED_TYPES]
        buckets.append(TensorBucket(own, buffer, offsets, slots if dtype in ROUTED_TYPES else None))
    return buckets


def pack_rows(tensors: Mapping[str, torch.Tensor], index: Mapping[str, int], rank: int,
              ranks: int) -> list[TensorBucket]:
    """Buckets of one row per rank: of each tensor the rank's chunk of dimension 0, padded to equal rows."""
    buckets = []
    for dtype, own in _by_type(tensors):
        sizes = [_padded_rows(tensor, ranks) * _row_size(tensor) for tensor in own.values()]
        offsets = [0, *itertools.accumulate(sizes)]
        buffer = next(iter(own.values())).new_zeros(ranks, offsets[-1])
        shards, slots = {}, []
        for (name, tensor), offset in zip(own.items(), offsets, strict=False):
            matrix = tensor.reshape(_rows(tensor), _row_size(tensor))
            chunks = matrix.split(max(_padded_rows(tensor, ranks), 1))
            for row, chunk in enumerate(chunks):
                buffer[row, offset:offset + chunk.numel()] = chunk.reshape(-1)
                if dtype in ROUTED_TYPES and chunk.numel():
                    slots.append((index[name], row * offsets[-1] + offset, chunk.numel()))
            own_rows = len(chunks[rank]) if rank < len(chunks) else 0
            shards[name] = tensor.new_empty(own_rows, *tensor.shape[1:])
        buckets.append(TensorBucket(shards, buffer.view(-1), [rank * offsets[-1] + at for at in offsets[:-1]],
                                    slots if dtype in ROUTED_TYPES else None, scatters=True))
    return buckets


def _by_type(tensors: Mapping[str, torch.Tensor]) -> list[tuple[torch.dtype, dict[str, torch.Tensor]]]:
    by_type: dict[torch.dtype, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        by_type.setdefault(tensor.dtype, {})[name] = tensor
    return [(dtype, by_type[dtype]) for dtype in sorted(by_type, key=str)]


def _rows(tensor: torch.Tensor) -> int:
    return tensor.shape[0] if tensor.dim() else 1


def _padded_rows(tensor: torch.Tensor, ranks: int) -> int:
    return math.ceil(_rows(tensor) / ranks)


def _row_size(tensor: torch.Tensor) -> int:
    return tensor.numel() // max(_rows(tensor), 1)


class ReducerWork:
    """The handle of a Reducer's call."""

    def __init__(self, buckets: Sequence[TensorBucket], started: Sequence[torch.futures.Future]) -> None:
        self._started = list(started)
        self._unpacked = [future.then(functools.partial(_unpack, bucket))
                          for bucket, future in zip(buckets, started, strict=True)]
        self._all = torch.futures.collect_all(self._unpacked)
        self._tensors = {name: tensor for bucket in buckets for name, tensor in bucket.tensors.items()}

    def wait(self) -> None:
        """Waits until the tensors hold the result; on a device, the current stream waits. Raises
        RuntimeError if the call failed."""
        for future in (*self._started, *self._unpacked):  # errors of the former have no traceback inside
            future.wait()

    def shards(self) -> dict[str, torch.Tensor]:
        """This rank's part of each tensor of a reduce_scatter(), once wait() has returned."""
        return self._tensors

    def is_completed(self) -> bool:
        return all(future.done() for future in self._unpacked)

    def get_future(self) -> torch.futures.Future:
        """Completes when all tensors hold the result."""
        return self._all


def _unpack(bucket: TensorBucket, done: torch.futures.Future) -> dict[str, torch.Tensor]:
    done.value()  # raises the error of the bucket
    return bucket.unpack()
