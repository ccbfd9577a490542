"""nf.attach(): one call that lets a DDP model's gradients travel at low bits where that pays."""

import gc
import logging
import os
from collections.abc import Sequence

import torch
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import _C
from neuron_fabric.attached import follow_scaler, mark_attached
from neuron_fabric.fabric import Fabric
from neuron_fabric.session import open_session
from neuron_fabric.settings import Settings, mode
from neuron_fabric.telemetry import Reader

logger = logging.getLogger(__name__)


def attach(
    model: torch.nn.Module,
    profile: object = None,
    *,
    route: str | None = None,
    admit: str = "useful",
    link_gbps: float | None = None,
    run_dir: str | os.PathLike | None = None,
    topology: str = "auto",
    group_size: int | None = None,
    reducer: str = "ranks",
    seed: int = 0,
    timeout: float | None = None,
    scaler: "torch.amp.GradScaler | None" = None,
    tensorboard: str | os.PathLike | None = None,
    prometheus: int | str | None = None,
    record: str | os.PathLike | None = None,
    record_lines: str | os.PathLike | None = None,
    readers: Sequence[Reader] = (),
    deterministic: bool = False,
    decisions: str | os.PathLike | None = None,
) -> Fabric:
    """Attaches the runtime to a DistributedDataParallel model, before its first backward pass.

    Every rank calls it with the same arguments. What cannot work raises on all of them.

    profile: a path, a dict or an nf.Profile; without one, heads, norms, biases and embeddings stay
        dense and the rest takes waterfill:5 after a warm-up, under the monitor.
    route: forces one route on every parameter from the first step, without admission.
    admit: "useful" uses low bits where they are safe and predicted to shorten the step, "safe"
        wherever they are safe.
    link_gbps: prices another link than the one measured.
    run_dir: where rank 0 writes what happens, for `nf report`; NF_RUN_DIR where it is not given.
    topology: "auto", or how ranks sum low-bit gradients: direct, ring, tree, halving_doubling, or
        hierarchical, which is at full precision inside groups of ranks and at low bits between them.
    group_size: of such groups: how many consecutive ranks share a machine. Found out where it is not
        given, if machines have the same number of ranks.
    reducer: "ranks", or "cxl": g_binary and g_ternary are summed by the model of a memory-side reducer
        in shared memory (docs/cxl.md); all ranks are of one machine then.
    seed: of everything random.
    timeout: seconds to wait for a peer; that of the model's process group where it is not given.
    scaler: a GradScaler whose scale error feedback and norms are to be free of.
    tensorboard, prometheus: a folder for TensorBoard; a port, host:port or file for Prometheus.
    record: a file in which rank 0 keeps the sizes of all buckets, for `nf replay`.
    record_lines: with reducer="cxl", a file in which rank 0 keeps the first 100,000 cache lines of
        gradients, for the RTL (docs/rtl.md).
    readers: of your own, on this rank: neuron_fabric.telemetry.Reader, with write(record), flush() and
        close() (docs/telemetry.md).
    deterministic: no measured time decides anything, so that two runs of one seed give the same bits:
        every safe low-bit route is used, as with admit="safe"; with `decisions`, those of the file.
    decisions: a file for what measured times decide, on rank 0. If it does not exist, this run records
        it; if it exists, this run replays it, whatever it measures (docs/runtime.md).

    Telemetry and threads end with close(), with the process, or, where gradients are summed on the
    host, when model and fabric are dropped. A model on a device is freed by close() alone.

    The environment variable NF_MODE turns it off, or lets it only watch (shadow), without a change
    to the code.
    """
    ddp = unwrap(model)

    def check() -> Settings:
        if mode() != "off":
            refuse_what_cannot_work(ddp)
        if scaler is not None and not hasattr(scaler, "get_scale"):
            raise TypeError(f"scaler is a torch.amp.GradScaler, not a {type(scaler).__name__}")
        return Settings(
            profile=profile,
            route=route,
            admit=admit,
            link_gbps=link_gbps,
            run_dir=run_dir,
            topology=topology,
            group_size=group_size,
            reducer=reducer,
            seed=seed,
            timeout=timeout,
            tensorboard=tensorboard,
            prometheus=prometheus,
            record=record,
            record_lines=record_lines,
            readers=readers,
            deterministic=deterministic,
            decisions=decisions,
        )

    session, parameters = open_session(
        ddp.module, ddp.process_group, check, timeout, _C.reducer_parameters(ddp.reducer))
    if session is None:
        return Fabric(None, parameters)
    session.runtime.register(ddp.reducer)
    ddp.logger._set_comm_hook_name("neuron_fabric")
    mark_attached(ddp, session)
    if scaler is not None:
        follow_scaler(ddp, session.runtime, scaler)
    if session.rank == 0:
        logger.info(
            "attached to %d parameters of %d ranks, %s, summed on %s",
            len(parameters.names), session.ranks, session.runtime.topology, session.runtime.place,
        )
    return Fabric(session, parameters)


def unwrap(model: torch.nn.Module) -> DistributedDataParallel:
    """The DDP model itself, also of torch.compile(DDP(...))."""
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, DistributedDataParallel):
        return inner
    raise TypeError(_why_not_ddp(inner))


def _why_not_ddp(module: object) -> str:
    kind = type(module).__name__
    if "FSDP" in kind or "FullySharded" in kind:
        return (f"{kind} shards its parameters and has no buckets to compress; attach() takes a "
                "DistributedDataParallel model")
    if _is_replicated(module):
        return (f"this {kind} is under replicate(), which reduces its gradients by itself: attach() takes "
                "a DistributedDataParallel model; use DistributedDataParallel(model) instead of "
                "replicate(model), not on top of it")
    # Slow, and only on the way to an error.
    if any(issubclass(type(other), DistributedDataParallel) and other.module is module
           for other in gc.get_objects()):
        return (f"attach() takes the DistributedDataParallel object around this {kind}, not the module "
                "inside it: trainer.model_wrapped of a Hugging Face Trainer, trainer.strategy.model of "
                "Lightning, what accelerator.prepare() returned")
    return (f"attach() takes a DistributedDataParallel model, not a {kind}: wrap it first, "
            "DistributedDataParallel(model)")


def _is_replicated(module: object) -> bool:
    if not isinstance(module, torch.nn.Module):
        return False
    from torch.distributed._composable import replicate

    return replicate.state(module) is not None


def refuse_what_cannot_work(ddp: DistributedDataParallel) -> None:
    if getattr(ddp, "_use_python_reducer", False):
        raise RuntimeError(
            "DDP runs with the Python reducer (torch._dynamo.config.optimize_ddp is "
            "'python_reducer'), which has no buckets; use the default, optimize_ddp = True, without "
            "compiled autograd"
        )
    if getattr(ddp, "mixed_precision", None) is not None:
        raise RuntimeError(
            "DDP(mixed_precision=...) takes the communication hook for itself; use torch.autocast, "
            "or a model in bfloat16, instead"
        )
    # DDP registers a hook for them in its first forward pass, after attach().
    if any(hasattr(parameter, "_in_backward_optimizers") for parameter in ddp._module_parameters):
        raise RuntimeError(
            "the model's optimizer runs in backward (_apply_optimizer_in_backward), which takes the "
            "communication hook for itself; call optimizer.step() after backward instead"
        )
    if ddp._comm_hooks or ddp._get_ddp_logging_data().get("comm_hook"):
        name = ddp._get_ddp_logging_data().get("comm_hook", "another hook")
        raise RuntimeError(
            f"the model already has a communication hook ({name}), and DDP takes only one: attach "
            "to a fresh DistributedDataParallel"
        )
