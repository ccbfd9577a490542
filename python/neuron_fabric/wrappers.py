"""Recognises the wrappers that reduce gradients, among the modules of a model."""

import sys

import torch
from torch.nn.parallel import DistributedDataParallel


def has_fsdp(module: object) -> bool:
    """Whether it has modules under FSDP2."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(module, torch.nn.Module) and any(
        isinstance(part, fsdp.FSDPModule) for part in module.modules())


def is_replicated(module: object) -> bool:
    """Whether it is under the replicate() that uses DDP."""
    return any(base.__module__ == "torch.distributed._composable.replicate" for base in type(module).__mro__)


def is_fsdp1(module: object) -> bool:
    return type(module).__name__ == "FullyShardedDataParallel"


def is_engine(module: object) -> bool:
    """Whether its name is that of a wrapper of another package, such as DeepSpeedEngine, or Megatron's own
    DistributedDataParallel."""
    names = [base.__name__ for base in type(module).__mro__]
    return any(name.endswith("Engine") or "DataParallel" in name for name in names)


def inner_wrapper(model: torch.nn.Module) -> str | None:
    """The name of a wrapper other than FSDP2 that is around a module of the model."""
    for module in model.modules():
        if isinstance(module, DistributedDataParallel):
            return "a DistributedDataParallel model"
        if is_replicated(module):
            return "a module under replicate() of DDP"
        if is_fsdp1(module):
            return "a FullyShardedDataParallel (FSDP1) module"
    return None
