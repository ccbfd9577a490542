"""The parameter groups of FSDP2. FSDP reduces the gradients of a group together."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_common import DDPMeshInfo, FSDPMeshInfo
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.model import ROUTED_TYPES, ModelParameters, local_tensor, parameters_of


@dataclass(frozen=True)
class Layout:
    """The parameter groups of a model, and their places among the ranks."""

    groups: list[Any]  # FSDPParamGroup
    replicas: dist.ProcessGroup | None  # the ranks with the same shard; None without replicas
    shards: dist.ProcessGroup | None  # the ranks of a replica; None if that is one rank

    @property
    def shard(self) -> int:
        return self.shards.rank() if self.shards else 0


class Gradients:
    """The parameters of one group that have a gradient in this backward pass. FSDP omits the others from
    the buffer that it reduces."""

    def __init__(self, params: Any, index: dict[int, int]) -> None:
        """index: that of index_of()."""
        self._params, self._index = params, index
        self.present: list[Any] = []  # FSDPParam
        self.error: Exception | None = None  # raised when the backward pass of the group is over
        original = params.post_backward

        def post_backward(*unused: Any) -> None:
            self.present = [one for one in params.fsdp_params if _has_gradient(one)] or self.present
            original(*unused)
            if self.error is not None:
                raise self.error

        params.post_backward = post_backward

    def routed(self, buffer: torch.Tensor) -> list[tuple[Any, int]] | None:
        """The present parameters and their numbers in the runtime. None if the buffer has values of another
        parameter: one of another data type, or one that was frozen at attach()."""
        known = [(one, self._index.get(id(one))) for one in self.present]
        if buffer.dtype not in ROUTED_TYPES or any(number is None for _, number in known):
            return None
        return known

    def check_size(self, given: int, expected: int) -> None:
        if given != expected:
            raise RuntimeError(
                f"neuron_fabric: FSDP reduces {given} values of {self._params}, whose parameters with a "
                f"gradient have {expected}: PyTorch {torch.__version__} is not supported")


def find_layout(model: torch.nn.Module) -> Layout:
    if not dist.is_initialized():
        raise RuntimeError("torch.distributed is not initialised: call init_process_group() first")
    groups = [group for group in _param_groups(model) if group.fsdp_params]
    if not groups:
        raise RuntimeError("fully_shard() or replicate() has sharded no parameter of this model")
    if any(isinstance(module, DistributedDataParallel) for module in model.modules()):
        raise RuntimeError("this model contains a DistributedDataParallel model, which reduces its gradients itself; "
                           "use fully_shard() alone, with replicas on a mesh of two dimensions")
    if any(hasattr(group, "neuron_fabric") for group in groups):
        raise RuntimeError("the model is attached already")
    meshes = [_mesh_of(group.mesh_info) for group in groups]
    if any(other != meshes[0] for other in meshes):
        raise RuntimeError("the modules of this model are on different meshes; attach() takes one mesh")
    for group in groups:
        group.reshard()  # after a forward pass, modules may still have whole parameters
    first = groups[0].mesh_info
    return Layout(groups,
                  first.replicate_process_group if isinstance(first, DDPMeshInfo) else None,
                  first.shard_process_group if isinstance(first, FSDPMeshInfo) else None)


def reject_later_groups(model: torch.nn.Module, groups: list[Any]) -> None:
    """Before its first forward pass, raises RuntimeError if modules were sharded after attach(), or if the model
    is a part of another one, which would end the backward pass."""
    known = {id(group) for group in groups}

    def check(_module: object, _inputs: object) -> None:
        if model._get_fsdp_state()._is_root is False:  # None: no forward pass yet
            raise RuntimeError(f"nf.attach() got this {type(model).__name__}, a part of a model under fully_shard() or "
                               "replicate(): call it with the whole model, after fully_shard() of all modules")
        later = sum(id(group) not in known for group in _param_groups(model) if group.fsdp_params)
        if later:
            raise RuntimeError(
                f"fully_shard() was called after nf.attach(): {later} parameter groups are not attached; "
                "call nf.attach() after fully_shard() of all modules")
        handle.remove()

    handle = model.register_forward_pre_hook(check)


def index_of(model: torch.nn.Module, groups: list[Any], parameters: ModelParameters) -> dict[int, int]:
    """The numbers of the parameters in the runtime, by the id of their FSDPParam, whose tensor
    load_state_dict() may replace."""
    numbers = {name: i for i, name in enumerate(parameters.names)}
    found = parameters_of(model)
    names = {id(tensor): name for name, tensor in zip(found.names, found.tensors, strict=True)}
    return {id(one): numbers[names[id(one.sharded_param)]]
            for group in groups for one in group.fsdp_params if id(one.sharded_param) in names}


def states_of(model: torch.nn.Module) -> list[Any]:
    """FSDPState of every module that has one."""
    found = [module._get_fsdp_state() for module in model.modules() if isinstance(module, FSDPModule)]
    return list(dict.fromkeys(found))


def managed_parameters(model: torch.nn.Module, groups: list[Any], is_whole: bool) -> ModelParameters:
    """The parameters of the groups, or this rank's shards of them. Their tensors have no memory. They are on
    the device of the gradients, which differs from that of the parameters if these are offloaded."""
    managed = {id(one.sharded_param) for group in groups for one in group.fsdp_params}

    def describe(tensor: torch.Tensor) -> torch.Tensor:
        shape = tensor.size() if is_whole else local_tensor(tensor).size()
        device = tensor.device if tensor.is_meta else groups[0].device
        return torch.empty(1, dtype=tensor.dtype, device=device).expand(shape)

    return parameters_of(model).only(lambda tensor: id(tensor) in managed).map(describe)


def gradients_of(groups: list[Any]) -> list[torch.Tensor]:
    """The reduced gradients of this rank."""
    found = [one.sharded_param.grad for group in groups for one in group.fsdp_params]
    return [local_tensor(gradient) for gradient in found if gradient is not None]


def _param_groups(model: torch.nn.Module) -> list[Any]:
    found = []
    for state in states_of(model):
        several = getattr(state, "_fsdp_param_groups", None)  # newer versions
        found += several if several is not None else [state._fsdp_param_group]
    return [group for group in found if group is not None]


def _mesh_of(mesh_info: Any) -> tuple[list[int], list[int]]:
    return (_ranks(mesh_info.replicate_process_group) if isinstance(mesh_info, DDPMeshInfo) else [],
            _ranks(mesh_info.shard_process_group) if isinstance(mesh_info, FSDPMeshInfo) else [])


def _ranks(group: dist.ProcessGroup) -> list[int]:
    return dist.get_process_group_ranks(group)


def _has_gradient(one: Any) -> bool:
    return hasattr(one, "_unsharded_param") and (
        one.unsharded_accumulated_grad is not None or one.unsharded_param.grad is not None)
