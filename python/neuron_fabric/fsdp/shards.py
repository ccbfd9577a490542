"""nf.attach() for fully_shard() on a mesh of one dimension: gradients are reduced by a reduce-scatter, in
which each rank gets the sum of its own shard. In each parameter group, a LowBitReduceScatter takes the place
of FSDP's communication object. Accumulation, mixed precision and offloading remain FSDP's. HSDP may use it
within each replica.
"""

import functools
import logging
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter

from neuron_fabric.attached import pass_scale
from neuron_fabric.fabric import Fabric
from neuron_fabric.fsdp.backward import Backward, Slots
from neuron_fabric.fsdp.groups import (
    Gradients,
    Layout,
    gradients_of,
    index_of,
    managed_parameters,
    reject_later_changes,
    reject_unsupported,
    states_of,
)
from neuron_fabric.model import ModelParameters
from neuron_fabric.session import Session, open_session
from neuron_fabric.settings import Settings, mode
from neuron_fabric.source import Source

logger = logging.getLogger(__name__)


def attach_shards(model: torch.nn.Module, layout: Layout, options: dict[str, Any]) -> Fabric:
    def check() -> Settings:
        if mode() != "off":
            reject_unsupported(model, layout, takes_reduce_scatter=True)
        return Settings(**options)

    session, parameters = open_shards(model, layout, check, options["timeout"], "fsdp2")
    gradients = functools.partial(gradients_of, layout.groups)
    if session is None:
        return Fabric(None, parameters, gradients=gradients, shards=layout.shards)
    step = install_shards(model, layout, session)
    reject_later_changes(model, layout.groups, LowBitReduceScatter)
    if options["scaler"] is not None:
        pass_scale(model, session.runtime, options["scaler"])
    if session.rank == 0:
        logger.info("attached to %d parameters in %d shards, topology %s, reduced on %s",
                    len(parameters.names), session.ranks, session.runtime.topology, session.runtime.place)
    return Fabric(session, parameters, gradients=gradients, has_unseen=lambda: step.has_unrouted, shards=layout.shards)


def open_shards(model: torch.nn.Module, layout: Layout, check: Callable[[], Settings], timeout: object,
                source: str) -> tuple[Session | None, ModelParameters]:
    """The session of the reduce-scatters within a replica."""
    return open_session(
        Source(source, type(model).__name__, lambda: managed_parameters(model, layout.groups, is_whole=True),
               "reduce_scatter"),
        layout.shards, check, timeout)


def install_shards(model: torch.nn.Module, layout: Layout, session: Session) -> Backward:
    """From now on, the reduce-scatters within a replica are the runtime's."""
    step = Backward(session, model, states_of(model))
    index = index_of(model, layout.groups, session.parameters)
    for params in layout.groups:
        params.neuron_fabric = session
        params._reduce_scatter_comm = LowBitReduceScatter(params, session, step, index)
    return step


class LowBitReduceScatter(ReduceScatter):
    """Takes the place of FSDP's reduce-scatter in one parameter group."""

    def __init__(self, params: Any, session: Session, step: Backward, index: dict[int, int]) -> None:
        self._params, self._step = params, step
        self._gradients = Gradients(params, session, index)
        self._slots: dict[tuple[int, ...], Slots] = {}  # by the parameters with a gradient

    def allocate(self, size: list[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: dist.ProcessGroup,
                 op: Any, async_op: bool = False) -> None:
        is_mean = op == dist.ReduceOp.AVG
        slots = self._find_slots(group.size(), input_tensor)
        future = self._step.reduce(input_tensor, slots, is_mean=is_mean)
        factor = 1.0 if is_mean or op == dist.ReduceOp.SUM else 1 / self._params.gradient_divide_factor

        def finish() -> None:
            future.wait()
            output_tensor.copy_(input_tensor.view(group.size(), -1)[group.rank()])
            if factor != 1:
                output_tensor.mul_(factor)

        if not (is_mean and self._gradients.are_read_late(output_tensor)):
            self._step.finish()  # FSDP may add this result to a waiting one
            finish()
        elif output_tensor.device.type == "cpu":
            self._step.at_end(finish)
        else:
            self._step.beside(finish, input_tensor, output_tensor)

    def _find_slots(self, ranks: int, buffer: torch.Tensor) -> Slots | None:
        """FSDP's layout: one row per rank; in it, for each parameter with a gradient, the rank's chunk of
        dimension 0, padded to equal rows. With Shard(i), i > 0, the chunk of dimension i."""
        routed = self._gradients.routed(buffer)
        if routed is None:
            return None
        row_size = sum(one.padded_sharded_param_size.numel() for one, _ in routed)
        self._gradients.check_size(buffer.numel(), row_size * ranks)
        key = tuple(number for _, number in routed)
        if key not in self._slots:
            self._slots[key] = _make_slots(routed, ranks, row_size)
        return self._slots[key]


def _make_slots(routed: list[tuple[Any, int]], ranks: int, row_size: int) -> Slots:
    slots, offset = [], 0
    for one, number in routed:
        size = list(one._orig_size)
        rows = size.pop(one.fsdp_placement.dim)
        padded = math.ceil(rows / ranks)
        for rank in range(ranks):
            own = min(max(rows - rank * padded, 0), padded)
            if own > 0:
                slots.append((number, rank * row_size + offset, own * math.prod(size)))
        offset += one.padded_sharded_param_size.numel()
    return slots
