"""nf.attach() for replicas of FSDP2: fully_shard() on a mesh with replicas (HSDP), and replicate().

FSDP reduces the gradients of a parameter group in two stages: a reduce-scatter within a replica, then an
all-reduce of each shard between replicas. The second stage goes through the runtime: in each parameter
group, a ReplicaGroup takes the place of the process group between replicas. With within_replicas="low_bit",
so does the first (shards.py). Accumulation, mixed precision and offloading remain FSDP's.

The ranks that hold the same shard form one job with its own session, and with within_replicas="low_bit" the
ranks of a replica form another. Jobs decide independently.
"""

import functools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from neuron_fabric.attached import pass_scale
from neuron_fabric.fabric import Fabric
from neuron_fabric.fsdp.backward import Backward, Slots
from neuron_fabric.fsdp.groups import (
    Gradients,
    Layout,
    gradients_of,
    index_of,
    managed_parameters,
    reject_later_groups,
    states_of,
)
from neuron_fabric.fsdp.shards import install_shards, open_shards
from neuron_fabric.model import local_tensor
from neuron_fabric.ranks.own_group import own_group
from neuron_fabric.ranks.rendezvous import run_on_all_ranks
from neuron_fabric.session import open_session, seconds_of
from neuron_fabric.settings import Settings
from neuron_fabric.source import Source

T = TypeVar("T")

logger = logging.getLogger(__name__)

_ONE_JOB_ONLY = {"tensorboard": None, "prometheus": None, "readers": ()}


def attach_replicas(model: torch.nn.Module, layout: Layout, options: dict[str, Any]) -> Fabric:
    session, parameters = _in_all_jobs(layout.shards, options, lambda: open_session(
        Source("hsdp" if layout.shards else "replicate", type(model).__name__,
               lambda: managed_parameters(model, layout.groups, is_whole=False)),
        layout.replicas, lambda: Settings(**_between(options, layout)), options["timeout"]))
    gradients = functools.partial(gradients_of, layout.groups)
    if session is None:
        return Fabric(None, parameters, gradients=gradients, shards=layout.shards)
    within = None
    if options["within_replicas"] == "low_bit":
        try:
            own, whole = _in_all_jobs(layout.replicas, options, lambda: open_shards(
                model, layout, _within(options, layout), "hsdp"))
        except BaseException:
            session.close()
            raise
        install_shards(model, layout, own)
        within = Fabric(own, whole, shards=layout.replicas)
    step = Backward(session, states_of(model))
    index = index_of(model, layout.groups, parameters)
    for params in layout.groups:
        params.neuron_fabric = session
        params.mesh_info.replicate_process_group = ReplicaGroup(layout.replicas, params, step, index)
    reject_later_groups(model, layout.groups)
    fabric = Fabric(session, parameters, gradients=gradients, shards=layout.shards, within=within)
    if options["scaler"] is not None:
        pass_scale(model, fabric, options["scaler"])
    if session.rank == 0:
        logger.info("attached to %d parameters of %d replicas, shard %d, topology %s, reduced on %s",
                    len(parameters.names), session.ranks, layout.shard, session.runtime.topology,
                    session.runtime.place)
    return fabric


def _in_all_jobs(others: dist.ProcessGroup | None, options: dict[str, Any], work: Callable[[], T]) -> T:
    """Runs `work`, which opens the job of this rank. If it fails in one job, all ranks raise. others: a group
    with one rank of each job."""
    if others is None or others.size() == 1:
        return work()
    return run_on_all_ranks(own_group(others, seconds_of(options["timeout"], others)), work)


class ReplicaGroup(dist.ProcessGroup):
    """Takes the place of the process group between replicas in one parameter group of FSDP."""

    def __init__(self, group: dist.ProcessGroup, params: Any, step: Backward, index: dict[int, int]) -> None:
        super().__init__(group.rank(), group.size())
        self._group, self._step = group, step
        self._gradients = Gradients(params, index)

    def getBackendName(self) -> str:  # noqa: N802: overrides a method of ProcessGroup
        return self._group.name()

    def allreduce(self, tensors: list[torch.Tensor], options: Any = None) -> "_Done":
        [tensor] = tensors
        try:
            self._step.reduce(tensor, self._slots(tensor)).wait()
        except Exception as error:  # dist.all_reduce() would replace it: it does not know this group
            self._gradients.error = error
        if options is not None and options.reduceOp == dist.ReduceOp.AVG:
            tensor.div_(self.size())
        return _Done()

    def _slots(self, tensor: torch.Tensor) -> Slots | None:
        """FSDP's layout: for each parameter with a gradient, its shard, padded to equal rows."""
        routed = self._gradients.routed(tensor)
        if routed is None:
            return None
        slots, offset = [], 0
        for one, number in routed:
            slots.append((number, offset, local_tensor(one.sharded_param).numel()))
            offset += one.padded_sharded_param_size.numel()
        self._gradients.check_size(tensor.numel(), offset)
        return slots


class _Done(dist._Work):
    """A finished operation; on a device, the current stream waits for it already."""

    def wait(self, timeout: object = None) -> bool:
        return True


def _between(options: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """The settings of the jobs between replicas, one per shard."""
    if layout.shards is None or layout.shards.size() == 1:
        return options
    own = _in_folder(options, f"shard-{layout.shard}")
    return own if layout.shard == 0 else own | _ONE_JOB_ONLY


def _within(options: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """The settings of the jobs within replicas."""
    return (_in_folder(options, f"replica-{layout.replicas.rank()}") | _ONE_JOB_ONLY
            | {"topology": "auto", "group_size": None})


def _in_folder(options: dict[str, Any], name: str) -> dict[str, Any]:
    """Every job writes its own files."""
    paths = {setting: options[setting] for setting in ("run_dir", "record", "decisions")}
    paths["run_dir"] = paths["run_dir"] or os.environ.get("NF_RUN_DIR")
    return options | {setting: Path(path) / name for setting, path in paths.items() if path}
