"""The parameter groups of FSDP2. FSDP reduces the gradients of a group together."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter
from torch.distributed.fsdp._fully_shard._fsdp_common import DDPMeshInfo, FSDPMeshInfo

from neuron_fabric.model import ROUTED_TYPES, ModelParameters, local_tensor, parameters_of
from neuron_fabric.session import Session
from neuron_fabric.wrappers import inner_wrapper


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

    def __init__(self, params: Any, session: Session, index: dict[int, int]) -> None:
        """index: that of index_of()."""
        self._params, self._session, self._index = params, session, index
        self._is_reported = False
        self.present: list[Any] = []  # FSDPParam
        self.error: Exception | None = None  # raised when the backward pass of the group is over
        original = params.post_backward

        def post_backward(*unused: Any) -> None:
            self.present = [one for one in params.fsdp_params if _has_gradient(one)]
            original(*unused)
            if self.error is not None:
                raise self.error

        params.post_backward = post_backward

    def routed(self, buffer: torch.Tensor) -> list[tuple[Any, int]] | None:
        """The present parameters and their numbers in the runtime. None if the buffer has values of another
        parameter: one of another data type, or one that was frozen at attach()."""
        known = [(one, self._index.get(id(one))) for one in self.present]
        if buffer.dtype in ROUTED_TYPES and all(number is not None for _, number in known):
            return known
        if not self._is_reported:
            self._is_reported = True
            self._report_unrouted(buffer.dtype, [one for one, number in known if number is None])
        return None

    def _report_unrouted(self, dtype: torch.dtype, unknown: list[Any]) -> None:
        """Parameters of other types are reported at attach()."""
        frozen = [one for one in unknown if one.orig_dtype in ROUTED_TYPES]
        if frozen:
            why = (f"{frozen[0]._param_fqn} has a gradient, but required none at attach(); to use low bits, freeze "
                   "parameters after attach()")
        elif not unknown:
            why = f"they are reduced in {dtype}; to use low bits, set reduce_dtype=torch.float32"
        else:
            return
        self._session.notice("warning", "from now on, the gradients of a parameter group are reduced in full precision "
                                        f"and not monitored: {why}")

    def are_read_late(self, reduced: torch.Tensor) -> bool:
        """Whether FSDP only stores `reduced`, so that it may be computed later in the backward pass."""
        params = self._params
        sums_replicas = isinstance(params.mesh_info, DDPMeshInfo)
        return (reduced.dtype == params._orig_dtype and params._all_reduce_hook is None
                # On a CPU, the all-reduce between replicas reads the result of the reduce-scatter at once.
                and not (sums_replicas and reduced.device.type == "cpu")
                and not (sums_replicas and (not params.all_reduce_grads or params._partial_reduce_output is not None))
                and all(one.sharded_param.grad is None and not one.offload_to_cpu
                        and not getattr(one.sharded_param, "_post_accumulate_grad_hooks", None)
                        for one in self.present))

    def check_size(self, given: int, expected: int) -> None:
        if given != expected:
            raise RuntimeError(
                f"neuron_fabric: FSDP reduces {given} values of {self._params}, whose parameters with a "
                f"gradient have {expected}: PyTorch {torch.__version__} is not supported")


def find_layout(model: torch.nn.Module) -> Layout:
    """That of the first group. reject_unsupported() compares the others."""
    if not dist.is_initialized():
        raise RuntimeError("torch.distributed is not initialised: call init_process_group() first")
    groups = [group for group in _param_groups(model) if group.fsdp_params]
    if not groups:
        raise RuntimeError("fully_shard() or replicate() has sharded no parameter of this model")
    first = groups[0].mesh_info
    replicas = first.replicate_process_group if isinstance(first, DDPMeshInfo) else None
    return Layout(groups,
                  getattr(replicas, "replaced", replicas),  # a ReplicaGroup, if the model is attached already
                  first.shard_process_group if isinstance(first, FSDPMeshInfo) else None)


def reject_unsupported(model: torch.nn.Module, layout: Layout, takes_reduce_scatter: bool) -> None:
    """Raises RuntimeError if the runtime cannot reduce the gradients of this model.

    takes_reduce_scatter: whether the reduce-scatters within a replica will be the runtime's.
    """
    if (inner := inner_wrapper(model)) is not None:
        raise RuntimeError(f"this model contains {inner}, which reduces its gradients itself; "
                           "use fully_shard() alone, with replicas on a mesh of two dimensions")
    if any(hasattr(group, "neuron_fabric") for group in layout.groups):
        raise RuntimeError("the model is attached already")
    meshes = [_mesh_of(group.mesh_info) for group in layout.groups]
    if any(other != meshes[0] for other in meshes):
        raise RuntimeError("the modules of this model are on different meshes; attach() takes one mesh")
    for group in layout.groups:
        for one in group.fsdp_params:
            if one.is_dtensor:
                info = one._module_info
                raise RuntimeError(
                    f"the {info.param_name} of a {type(info.module).__name__} was a DTensor before fully_shard(): "
                    "attach() does not support tensor or expert parallelism; shard the model with fully_shard() alone, "
                    "or set NF_MODE=off")
    if takes_reduce_scatter:
        _reject_other_comm(layout.groups, DefaultReduceScatter)


def _reject_other_comm(groups: list[Any], expected: type) -> None:
    for group in groups:
        if type(group._reduce_scatter_comm) is not expected:
            raise RuntimeError(
                f"the reduce-scatter of this model is a {type(group._reduce_scatter_comm).__name__}, which attach() "
                "would replace, or which has replaced that of attach(): do not call set_custom_reduce_scatter() or "
                "set_allocate_memory_from_process_group_for_comm()")


def reject_later_changes(model: torch.nn.Module, groups: list[Any], comm: type | None) -> None:
    """Before its first forward pass, raises RuntimeError if modules were sharded after attach(), if the model
    is a part of another one, which would end the backward pass, or if reduce-scatters no longer have the class
    that attach() gave them.

    comm: that class; None if reduce-scatters are FSDP's.
    """
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
        if comm is not None:
            _reject_other_comm(groups, comm)
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
    for group in groups:
        group.reshard()  # after a forward pass, modules may still have whole parameters
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
