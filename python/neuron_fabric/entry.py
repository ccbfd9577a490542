"""nf.attach(): attaches the runtime to a wrapped model."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import torch

from neuron_fabric.ddp import attach_ddp
from neuron_fabric.fabric import Fabric
from neuron_fabric.settings import help_text
from neuron_fabric.telemetry import Reader


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
    within_replicas: str = "dense",
    reducer: str = "ranks",
    seed: int = 0,
    timeout: float | None = None,
    scaler: "torch.amp.GradScaler | None" = None,
    tensorboard: Any = None,
    prometheus: int | str | None = None,
    record: str | os.PathLike | None = None,
    record_lines: str | os.PathLike | None = None,
    readers: Sequence[Reader] = (),
    deterministic: bool = False,
    decisions: str | os.PathLike | None = None,
) -> Fabric:
    """Attaches the runtime to a wrapped model, before its first backward pass: DistributedDataParallel,
    FSDP2's fully_shard(), also with replicas (HSDP), or replicate().

    Every rank calls it with the same settings (docs/runtime.md has the table). If they are invalid, or
    the model is not supported, all ranks raise.

    Telemetry and threads end with close(), with the process, or, if gradients are reduced on the host,
    when the model and the fabric are garbage-collected. A model on a device is freed by close() only.

    The environment variable NF_MODE disables the runtime (off), or lets it only observe (shadow),
    without a change to the code.
    """
    options = {name: value for name, value in locals().items() if name != "model"}
    inner = getattr(model, "_orig_mod", model)  # of torch.compile()
    fsdp = sys.modules.get("torch.distributed.fsdp")  # slow to import; wrapping a model imports it
    if fsdp is not None and isinstance(inner, fsdp.FSDPModule):
        from neuron_fabric.fsdp import attach_fsdp

        return attach_fsdp(inner, options)
    return attach_ddp(inner, options)


attach.__doc__ += f"\n{help_text()}\n    "
