"""The modes in which the FSDP2 tests train the model of fsdp_job.py."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import Shard


@dataclass(frozen=True)
class Mode:
    """`change` changes the model before it is sharded, `configure` before it is attached, `late` after it is
    attached, `before` before each of the `parts` backward passes of a step."""

    options: dict[str, object] = field(default_factory=dict)  # of fully_shard() or replicate()
    net: dict[str, object] = field(default_factory=dict)
    is_meta: bool = False  # initialised after it is sharded
    change: Callable[[nn.Module], None] = lambda net: None
    configure: Callable[[nn.Module], None] = lambda model: None
    late: Callable[[nn.Module], None] = lambda model: None
    parts: int = 1
    reductions: int = 1  # per step
    before: Callable[[nn.Module, int, bool], None] = lambda model, step, is_last: None
    after: Callable[[nn.Module], None] = lambda model: None
    in_backward: bool = False  # the optimizer


def _set(**settings: object) -> Callable[[nn.Module], None]:
    """Calls setters of all sharded modules."""
    def configure(model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, FSDPModule):
                for name, value in settings.items():
                    getattr(module, name)(value)
    return configure


def _compile(net: nn.Module) -> None:
    for i, block in enumerate(net.blocks):
        net.blocks[i] = torch.compile(block, backend="aot_eager")


def _use(model: nn.Module, step: int, _is_last: bool) -> None:
    model.uses_all = step % 3 != 1


def _unfreeze(model: nn.Module, step: int, _is_last: bool) -> None:
    model.blocks[0].requires_grad_(step >= 2)


def _train_once(model: nn.Module) -> None:
    model(torch.ones(2, 9)).sum().backward()
    model.zero_grad()
    model(torch.ones(2, 9))


def _reload(model: nn.Module) -> None:
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)


def _freeze(net: nn.Module) -> None:
    net.blocks[0][0].requires_grad_(False)


def _second_dimension(parameter: nn.Parameter) -> Shard | None:
    """The second dimension of the matrices that 2, 3 and 4 ranks divide."""
    return Shard(1) if parameter.ndim == 2 and parameter.shape[1] == 132 else None


def _accumulate(model: nn.Module, _step: int, is_last: bool) -> None:
    model.set_requires_gradient_sync(is_last)


MODES = {
    "plain": Mode(),
    "bf16_parameters": Mode({"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)}),
    "bf16_reduction": Mode({"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16)}),
    "fp16_reduction": Mode({"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float16)}),
    "cpu_offload": Mode({"offload_policy": CPUOffloadPolicy(pin_memory=False)}),
    "shard_1": Mode({"shard_placement_fn": _second_dimension}),
    "kept_parameters": Mode({"reshard_after_forward": False}),
    "smaller_mesh": Mode({"reshard_after_forward": 2}),
    "checkpointing": Mode(net={"checkpoints": True}),
    "reentrant_checkpointing": Mode(net={"checkpoints": "reentrant"}),
    "tied": Mode(net={"tied": True}),
    "used_twice": Mode(net={"uses": 2}),
    "meta": Mode(is_meta=True),
    "compiled": Mode(change=_compile),
    "frozen": Mode(change=_freeze),
    "unfrozen": Mode(change=lambda net: net.blocks[0].requires_grad_(False), before=_unfreeze),
    "float64": Mode({"mp_policy": MixedPrecisionPolicy(torch.float32, torch.float32)},
                    change=lambda net: net.blocks[0].double()),
    "forced_sum": Mode(configure=_set(set_force_sum_reduction_for_comms=True)),
    "summed": Mode(configure=_set(set_force_sum_reduction_for_comms=True, set_gradient_divide_factor=1.0)),
    "factor": Mode(configure=_set(set_force_sum_reduction_for_comms=True, set_gradient_divide_factor=6.0)),
    "reduced_twice": Mode(parts=2, reductions=2),
    "accumulation": Mode(parts=2, before=_accumulate),
    "late_all_reduce": Mode(parts=2, before=lambda model, _, is_last: model.set_requires_all_reduce(is_last)),
    "clipping": Mode(after=lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1)),
    "unused": Mode(before=_use),
    "optimizer_in_backward": Mode(in_backward=True),
    "attached_late": Mode(configure=_train_once, late=lambda model: model.reshard()),
    "reloaded": Mode(late=_reload),
}
