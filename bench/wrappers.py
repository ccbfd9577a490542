"""The wrappers that step_time.py measures."""

import contextlib
import functools
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

NAMES = ("ddp", "fsdp2", "hsdp", "replicate")


def wrap(model: nn.Module, wrapper: str, shards: int, *, in_bf16: bool,
         parameters: torch.dtype | None = None, keeps: bool = False) -> nn.Module:
    """in_bf16: reduces gradients in BF16, without the runtime.
    parameters: the type in which FSDP gathers parameters and computes; default: their own.
    keeps: keeps gathered parameters until the backward pass.
    """
    if wrapper == "ddp":
        ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
        if in_bf16:
            ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
        return ddp
    policy = MixedPrecisionPolicy(parameters, torch.bfloat16 if in_bf16 else torch.float32)
    device, ranks = next(model.parameters()).device.type, dist.get_world_size()
    if wrapper == "replicate":
        mesh = init_device_mesh(device, (ranks,), mesh_dim_names=("replicas",))
        apply = functools.partial(replicate, mesh=mesh, mp_policy=policy)
    elif wrapper == "fsdp2":
        mesh = init_device_mesh(device, (ranks,))
        apply = functools.partial(fully_shard, mesh=mesh, mp_policy=policy, reshard_after_forward=not keeps)
    else:
        mesh = init_device_mesh(device, (ranks // shards, shards), mesh_dim_names=("replicas", "shards"))
        apply = functools.partial(fully_shard, mesh=mesh, mp_policy=policy, reshard_after_forward=not keeps)
    for block in blocks_of(model):
        apply(block)
    return apply(model)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The repeated layers: each is a parameter group of its own, as people do."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    blocks = max(lists, key=len, default=model).children()
    return [block for block in blocks if next(block.parameters(), None) is not None]


@contextlib.contextmanager
def without_reduction(model: nn.Module) -> Iterator[None]:
    if isinstance(model, DistributedDataParallel):
        with model.no_sync():
            yield
        return
    model.set_requires_gradient_sync(False)
    yield
    model.set_requires_gradient_sync(True)
