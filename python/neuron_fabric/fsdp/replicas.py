"""nf.attach() for replicas of FSDP2: fully_shard() on a mesh with replicas (HSDP), and replicate().

FSDP reduces the gradients of a parameter group in two stages: a reduce-scatter within a replica, then an
all-reduce of each shard between replicas. The second stage goes through the runtime: in each parameter
group, a ReplicaGroup takes the place of the process group between replicas. The first stage, accumulation,
mixed precision and offloading remain FSDP's.

The ranks that hold the same shard form one job with its own session. With S shards there are S jobs, which
decide independently.
"""

import functools
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_common import DDPMeshInfo, FSDPMeshInfo

from neuron_fabric import _C
from neuron_fabric.attached import pass_scale
from neuron_fabric.fabric import Fabric
from neuron_fabric.model import ROUTED_TYPES, ModelParameters, local_tensor, parameters_of
from neuron_fabric.session import Session, open_session
from neuron_fabric.settings import Settings
from neuron_fabric.source import Source

logger = logging.getLogger(__name__)

_READ_BY_RANK_0 = ("tensorboard", "prometheus")  # settings of which only one rank of a job makes use


@dataclass(frozen=True)
class Layout:
    """The parameter groups of a model, and their places among the ranks."""

    groups: list[Any]  # FSDPParamGroup
    replicas: dist.ProcessGroup
    shards: dist.ProcessGroup | None  # None if a replica is one rank

    @property
    def shard(self) -> int:
        return self.shards.rank() if self.shards else 0


def attach_replicas(model: FSDPModule, options: dict[str, Any]) -> Fabric:
    layout = _layout(model)
    options = _for_shard(options, layout)
    source = Source("hsdp" if layout.shards else "replicate", type(model).__name__,
                    lambda: _parameters(model, layout.groups))
    session, parameters = open_session(
        source, layout.replicas, lambda: Settings(**options), options["timeout"])
    if session is None:
        return Fabric(None, parameters)
    step = _Backward(session)
    index = {name: i for i, name in enumerate(parameters.names)}
    names = _names(model)
    for group in layout.groups:
        group.mesh_info.replicate_process_group = ReplicaGroup(layout.replicas, group, step, index, names)
    if options["scaler"] is not None:
        pass_scale(model, session.runtime, options["scaler"])
    if session.rank == 0:
        logger.info("attached to %d parameters of %d replicas, shard %d, topology %s, reduced on %s",
                    len(parameters.names), session.ranks, layout.shard, session.runtime.topology,
                    session.runtime.place)
    return Fabric(session, parameters, gradients=functools.partial(_gradients, layout.groups),
                  shards=layout.shards)


class ReplicaGroup(dist.ProcessGroup):
    """Takes the place of the process group between replicas in one parameter group of FSDP."""

    def __init__(self, group: dist.ProcessGroup, params: Any, step: "_Backward", index: dict[str, int],
                 names: dict[int, str]) -> None:
        super().__init__(group.rank(), group.size())
        self._group, self._params, self._step = group, params, step
        self._index, self._names = index, names
        self._present: list[Any] = []  # parameters with a gradient in this backward
        original = params.post_backward

        def post_backward(*unused: Any) -> None:
            self._present = [one for one in params.fsdp_params if _has_gradient(one)] or self._present
            original(*unused)

        params.post_backward = post_backward

    def getBackendName(self) -> str:  # noqa: N802: overrides a method of ProcessGroup
        return self._group.name()

    def allreduce(self, tensors: list[torch.Tensor], options: Any = None) -> "_Done":
        [tensor] = tensors
        self._step.reduce(tensor, self._slots(tensor)).wait()
        if options is not None and options.reduceOp == dist.ReduceOp.AVG:
            tensor.div_(self.size())
        return _Done()

    def _slots(self, tensor: torch.Tensor) -> list[tuple[int, int, int]] | None:
        """FSDP's layout: for each parameter with a gradient, its shard, padded to equal rows."""
        if tensor.dtype not in ROUTED_TYPES:
            return None
        slots, offset = [], 0
        for one in self._present:
            name, count = self._names[id(one.sharded_param)], local_tensor(one.sharded_param).numel()
            if name in self._index:
                slots.append((self._index[name], offset, count))
            offset += one.padded_sharded_param_size.numel()
        if offset != tensor.numel():
            raise RuntimeError(
                f"neuron_fabric: FSDP reduces {tensor.numel()} values of {self._params}, whose parameters "
                f"with a gradient have {offset}: PyTorch {torch.__version__} is not supported")
        return slots


class _Backward:
    """The buckets of one backward pass, which is one step of the runtime."""

    def __init__(self, session: Session) -> None:
        self._session = session  # keeps it alive as long as the model
        self._next = 0

    def reduce(self, tensor: torch.Tensor, slots: list[tuple[int, int, int]] | None) -> torch.futures.Future:
        if self._next == 0:
            Variable._execution_engine.queue_callback(self._end)
        return self._run(tensor.view(-1), slots, is_last=False)

    def _end(self) -> None:
        """FSDP does not mark its last bucket, so an empty one ends the step."""
        self._run(torch.empty(0, device=self._session.parameters.tensors[0].device), [], is_last=True).wait()
        self._next = 0

    def _run(self, buffer: torch.Tensor, slots: list[tuple[int, int, int]] | None,
             is_last: bool) -> torch.futures.Future:
        index, self._next = self._next, self._next + 1
        return self._session.runtime.run_values(buffer, index, is_last, is_mean=False, slots=slots)


class _Done(dist._Work):
    """A finished operation; on a device, the current stream waits for it already."""

    def wait(self, timeout: object = None) -> bool:
        return True


def _layout(model: torch.nn.Module) -> Layout:
    groups = [group for group in _param_groups(model) if group.fsdp_params]
    if not groups:
        raise RuntimeError("fully_shard() or replicate() has sharded no parameter of this model")
    for group in groups:
        if not isinstance(group.mesh_info, DDPMeshInfo):
            raise RuntimeError(
                "fully_shard() on a mesh without replicas reduces gradients by reduce-scatter alone, which "
                "has no low-bit form in PyTorch yet; attach() takes fully_shard() on a mesh of two "
                "dimensions (replicas, shards), replicate() and DistributedDataParallel")
        if isinstance(group.mesh_info.replicate_process_group, ReplicaGroup):
            raise RuntimeError("the model is attached already")
    first = groups[0].mesh_info
    ranks = [_ranks(group.mesh_info) for group in groups]
    if any(other != ranks[0] for other in ranks):
        raise RuntimeError("the modules of this model are on different meshes; attach() takes one mesh")
    shards = first.shard_process_group if isinstance(first, FSDPMeshInfo) else None
    return Layout(groups, first.replicate_process_group, shards)


def _param_groups(model: torch.nn.Module) -> list[Any]:
    found = []
    for module in model.modules():
        if isinstance(module, FSDPModule):
            state = module._get_fsdp_state()
            several = getattr(state, "_fsdp_param_groups", None)  # newer versions
            found += several if several is not None else [state._fsdp_param_group]
    return list(dict.fromkeys(group for group in found if group is not None))


def _ranks(mesh_info: Any) -> tuple[list[int], list[int]]:
    shards = mesh_info.shard_process_group if isinstance(mesh_info, FSDPMeshInfo) else None
    return (dist.get_process_group_ranks(mesh_info.replicate_process_group),
            dist.get_process_group_ranks(shards) if shards else [])


def _for_shard(options: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """The settings of one job: each shard writes its own run folder, and the first one serves the rest."""
    if layout.shards is None or layout.shards.size() == 1:
        return options
    own = {name: None for name in _READ_BY_RANK_0 if layout.shard > 0}
    for name in ("run_dir", "record", "decisions"):
        if options[name] is not None:
            own[name] = Path(options[name]) / f"shard-{layout.shard}"
    return options | own


def _names(model: torch.nn.Module) -> dict[int, str]:
    parameters = parameters_of(model)
    named = list(zip(parameters.names, parameters.tensors, strict=True))
    named += [(one.name, one.tensor) for one in parameters.unrouted]
    return {id(tensor): name for name, tensor in named}


def _parameters(model: torch.nn.Module, groups: list[Any]) -> ModelParameters:
    """The shards of this rank."""
    managed = {id(one.sharded_param) for group in groups for one in group.fsdp_params}
    return parameters_of(model).only(lambda tensor: id(tensor) in managed).map(local_tensor)


def _has_gradient(one: Any) -> bool:
    return hasattr(one, "_unsharded_param") and (
        one.unsharded_accumulated_grad is not None or one.unsharded_param.grad is not None)


def _gradients(groups: list[Any]) -> list[torch.Tensor]:
    found = [one.sharded_param.grad for group in groups for one in group.fsdp_params]
    return [local_tensor(gradient) for gradient in found if gradient is not None]
