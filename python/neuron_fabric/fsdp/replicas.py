"""nf.attach() for replicas of FSDP2: fully_shard() on a mesh with replicas (HSDP), and replicate().

FSDP reduces the gradients of a parameter group in two stages: a reduce-scatter within a replica, then an
all-reduce of each shard between replicas. The second stage goes through the runtime: in each parameter
group, a ReplicaGroup takes the place of the process group between replicas. With within_replicas="low_bit",
so does the first (shards.py). Accumulation, mixed precision and offloading remain FSDP's.

The ranks that hold the same shard form one job with its own session, and with within_replicas="low_bit" the
ranks of a replica form another. Jobs decide independently.
"""

import contextlib
import functools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    reject_later_changes,
    reject_unsupported,
    states_of,
)
from neuron_fabric.fsdp.shards import LowBitReduceScatter, install_shards, open_shards
from neuron_fabric.model import ModelParameters, local_tensor
from neuron_fabric.ranks.own_group import own_group
from neuron_fabric.ranks.rendezvous import agree, run_on_all_ranks
from neuron_fabric.session import Session, open_session, seconds_of
from neuron_fabric.settings import Settings, mode
from neuron_fabric.source import Source

Opened = tuple[Session | None, ModelParameters]

logger = logging.getLogger(__name__)

_ONE_JOB_ONLY = {"tensorboard": None, "prometheus": None}


def attach_replicas(model: torch.nn.Module, layout: Layout, options: dict[str, Any]) -> Fabric:
    is_low_bit_within = options["within_replicas"] == "low_bit"
    has_within = is_low_bit_within and layout.shards is not None and layout.shards.size() > 1
    shards = _group_of_jobs(layout.shards, options)
    between = _between(options, layout)

    def check() -> Settings:
        if mode() != "off":
            reject_unsupported(model, layout, takes_reduce_scatter=has_within)
        return Settings(**between)

    session, parameters = _open_in_all_jobs(shards, lambda: open_session(
        Source("hsdp" if layout.shards else "replicate", type(model).__name__,
               lambda: managed_parameters(model, layout.groups, is_whole=False)),
        layout.replicas, check, options["timeout"]))
    gradients = functools.partial(gradients_of, layout.groups)
    if session is None:
        return Fabric(None, parameters, gradients=gradients, shards=layout.shards)
    within, before = None, None
    if has_within:
        try:
            within, before = _attach_within(model, layout, _within(options, layout))
        except BaseException:
            session.close()
            raise
    elif is_low_bit_within:
        session.notice("info", "within_replicas='low_bit' has no effect: a replica is one rank")
    elif session.ranks == 1:
        session.notice("warning", "the mesh has one replica, so nothing is sent at low bits: use a mesh of one "
                                  "dimension, or within_replicas='low_bit'")
    step = Backward(session, model, states_of(model))
    index = index_of(model, layout.groups, parameters)
    for params in layout.groups:
        params.neuron_fabric = session
        params.mesh_info.replicate_process_group = ReplicaGroup(layout.replicas, params, session, step, before, index)
    reject_later_changes(model, layout.groups, LowBitReduceScatter if within else None)
    fabric = Fabric(session, parameters, gradients=gradients, has_unseen=lambda: step.has_unrouted,
                    shards=layout.shards, others=shards, within=within)
    if options["scaler"] is not None:
        pass_scale(model, fabric, options["scaler"])
    if session.rank == 0:
        logger.info("attached to %d parameters of %d replicas, shard %d, topology %s, reduced on %s",
                    len(parameters.names), session.ranks, layout.shard, session.runtime.topology,
                    session.runtime.place)
    return fabric


def _attach_within(model: torch.nn.Module, layout: Layout, options: dict[str, Any]) -> tuple[Fabric, Backward]:
    """The fabric of the job within this rank's replica, and its backward passes. All ranks call it at the same
    time."""
    replicas = _group_of_jobs(layout.replicas, options)
    session, parameters = _open_in_all_jobs(replicas, lambda: open_shards(
        model, layout, lambda: Settings(**options), options["timeout"], "hsdp"))
    step = install_shards(model, layout, session)
    return Fabric(session, parameters, others=replicas), step


def _group_of_jobs(others: dist.ProcessGroup | None, options: dict[str, Any]) -> dist.ProcessGroup | None:
    """A group of the runtime with one rank of each job. None if there is one job."""
    if others is None or others.size() == 1:
        return None
    return own_group(others, seconds_of(options["timeout"], others))


def _open_in_all_jobs(others: dist.ProcessGroup | None, work: Callable[[], Opened]) -> Opened:
    """Runs `work`, which opens the job of this rank. If it fails in one job, or if the settings of the jobs differ, all
    ranks raise and the jobs are closed."""
    if others is None:
        return work()
    opened: list[Opened] = []
    try:
        run_on_all_ranks(others, lambda: opened.append(work()))
        [(session, _)] = opened
        agree(others, {"NF_MODE": mode()} | (session.settings.agreed() if session is not None else {}))
    except BaseException:
        for session, _ in opened:
            if session is not None:
                session.close()
        raise
    return opened[0]


class ReplicaGroup(dist.ProcessGroup):
    """Takes the place of the process group between replicas in one parameter group of FSDP."""

    def __init__(self, group: dist.ProcessGroup, params: Any, session: Session, step: Backward,
                 before: Backward | None, index: dict[int, int]) -> None:
        """before: the reduce-scatters within the replica, if they are the runtime's."""
        super().__init__(group.rank(), group.size())
        self.replaced, self._step, self._before = group, step, before
        self._gradients = Gradients(params, session, index)

    def getBackendName(self) -> str:  # noqa: N802: overrides a method of ProcessGroup
        return self.replaced.name()

    def allreduce(self, tensors: list[torch.Tensor], options: Any = None) -> "_Done":
        [tensor] = tensors
        try:
            self._reduce(tensor, options is not None and options.reduceOp == dist.ReduceOp.AVG)
        except Exception as error:  # dist.all_reduce() would replace it, since this group is not registered
            self._gradients.error = error
        return _Done()

    def _reduce(self, tensor: torch.Tensor, is_mean: bool) -> None:
        is_late = is_mean and self._gradients.are_read_late(tensor)
        if not is_late:  # FSDP may add this result to a waiting one
            self._step.finish()
            if self._before is not None:
                self._before.finish()
        # A late result of the reduce-scatter is not on the current stream.
        with self._before.on_stream_beside() if is_late and self._before else contextlib.nullcontext():
            future = self._step.reduce(tensor, self._slots(tensor))

        def finish() -> None:
            future.wait()
            if is_mean:
                tensor.div_(self.size())

        if is_late:
            self._step.at_end(finish)
        else:
            finish()

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
            | {"topology": "auto", "group_size": None, "reducer": "ranks", "readers": (), "record_lines": None})


def _in_folder(options: dict[str, Any], name: str) -> dict[str, Any]:
    """Every job writes its own files."""
    paths = {setting: options[setting] for setting in ("run_dir", "record", "record_lines", "decisions")}
    paths["run_dir"] = paths["run_dir"] or os.environ.get("NF_RUN_DIR")
    return options | {setting: Path(path) / name for setting, path in paths.items() if path}
