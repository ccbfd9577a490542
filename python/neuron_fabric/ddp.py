"""nf.attach() for DistributedDataParallel."""

import gc
import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import _C
from neuron_fabric.attached import follow_scaler, mark_attached
from neuron_fabric.fabric import Fabric
from neuron_fabric.model import parameters_of
from neuron_fabric.session import open_session
from neuron_fabric.settings import Settings, mode
from neuron_fabric.source import DEFAULT_BUCKET_BYTES, Source
from neuron_fabric.wrappers import has_fsdp, inner_wrapper, is_engine, is_fsdp1, is_replicated

logger = logging.getLogger(__name__)


def attach_ddp(model: torch.nn.Module, options: dict[str, Any]) -> Fabric:
    """options: the arguments of nf.attach()."""
    ddp = unwrap(model)

    def check() -> Settings:
        if mode() != "off":
            reject_unsupported(ddp)
        return Settings(**options)

    source = ddp_source(ddp.module, _C.reducer_parameters(ddp.reducer), ddp.bucket_bytes_cap)
    session, parameters = open_session(source, ddp.process_group, check, options["timeout"])
    if session is None:
        return Fabric(None, parameters)
    session.runtime.register(ddp.reducer)
    ddp.logger._set_comm_hook_name("neuron_fabric")
    mark_attached(ddp, session)
    if options["scaler"] is not None:
        follow_scaler(ddp, session.runtime, options["scaler"])
    if session.rank == 0:
        logger.info(
            "attached to %d parameters of %d ranks, topology %s, reduced on %s",
            len(parameters.names), session.ranks, session.runtime.topology, session.runtime.place,
        )
    return Fabric(session, parameters)


def ddp_source(module: torch.nn.Module, reduced: Sequence[tuple[torch.Tensor, bool]] | None,
               bucket_bytes: int = DEFAULT_BUCKET_BYTES) -> Source:
    """The source for a DistributedDataParallel model around `module`.

    reduced: the parameters of its reducer (_C.reducer_parameters()), if known.
    """
    return Source("ddp", type(module).__name__, lambda: parameters_of(module, reduced), bucket_bytes=bucket_bytes)


def unwrap(model: torch.nn.Module) -> DistributedDataParallel:
    """The DistributedDataParallel model itself, also if torch.compile() wraps it."""
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, DistributedDataParallel):
        return inner
    raise TypeError(_why_not_ddp(inner))


def _why_not_ddp(module: object) -> str:
    kind = type(module).__name__
    if is_fsdp1(module):
        return (f"{kind} (FSDP1) is not supported: attach() takes DistributedDataParallel, and fully_shard() or "
                "replicate() of FSDP2; use fully_shard(model) instead")
    if has_fsdp(module):
        return (f"fully_shard() or replicate() was called on parts of this {kind} only: call it on the whole model "
                "too, after its parts, then attach()")
    if is_replicated(module):
        return (f"this {kind} is under replicate(), which reduces its gradients itself: attach() takes "
                "a DistributedDataParallel model; use DistributedDataParallel(model) instead of "
                "replicate(model), not on top of it")
    if is_engine(module):
        package = type(module).__module__.partition(".")[0]
        return (f"{kind} of {package} reduces gradients itself, which attach() does not support: use torch's "
                "DistributedDataParallel(model) or fully_shard(model) instead of it, not on top of it, or nf.Reducer in "
                "a loop of your own")
    # Slow, but only used for an error message.
    if any(issubclass(type(other), DistributedDataParallel) and other.module is module
           for other in gc.get_objects()):
        return (f"attach() takes the DistributedDataParallel object around this {kind}, not the module "
                "inside it: trainer.model_wrapped of a Hugging Face Trainer, trainer.strategy.model of "
                "Lightning, the result of accelerator.prepare()")
    return (f"attach() takes a model under DistributedDataParallel, fully_shard() or replicate() of FSDP2, not a "
            f"{kind}: wrap it first, for example DistributedDataParallel(model)")


def reject_unsupported(ddp: DistributedDataParallel) -> None:
    """Raises RuntimeError if the runtime cannot reduce the gradients of this model."""
    if has_fsdp(ddp.module):
        raise RuntimeError(
            "DistributedDataParallel is around a module under fully_shard() or replicate(), which reduces its "
            "gradients itself; use fully_shard() alone, with replicas on a mesh of two dimensions"
        )
    if (inner := inner_wrapper(ddp.module)) is not None:
        raise RuntimeError(f"DistributedDataParallel is around {inner}, which reduces its gradients itself; wrap the "
                           "model once")
    if getattr(ddp, "_use_python_reducer", False):
        raise RuntimeError(
            "DDP runs with the Python reducer (torch._dynamo.config.optimize_ddp is "
            "'python_reducer'), which has no buckets; use the default, optimize_ddp = True, without "
            "compiled autograd"
        )
    if getattr(ddp, "mixed_precision", None) is not None:
        raise RuntimeError(
            "DDP(mixed_precision=...) uses the communication hook itself; use torch.autocast, "
            "or a model in bfloat16, instead"
        )
    # DDP registers a hook for them in its first forward pass, after attach().
    if any(hasattr(parameter, "_in_backward_optimizers") for parameter in ddp._module_parameters):
        raise RuntimeError(
            "the model's optimizer runs in backward (_apply_optimizer_in_backward), which uses the "
            "communication hook itself; call optimizer.step() after backward instead"
        )
    if ddp._comm_hooks or ddp._get_ddp_logging_data().get("comm_hook"):
        name = ddp._get_ddp_logging_data().get("comm_hook", "another hook")
        raise RuntimeError(
            f"the model already has a communication hook ({name}), and DDP accepts only one: attach "
            "to a new DistributedDataParallel"
        )
