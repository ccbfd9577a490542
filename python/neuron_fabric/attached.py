"""The class of an attached DistributedDataParallel object. attach() changes the class of the object to one
derived from its own, as FSDP2's fully_shard() does. Copies and pickles have the original class and no
session, since the reducer of a copy does not have our hook.
"""

import copyreg
import functools
from collections import OrderedDict
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.session import Session


def mark_attached(ddp: DistributedDataParallel, session: Session | None) -> None:
    """Changes the class of `ddp` to one that rejects unsupported calls. The model keeps `session` alive."""
    if not isinstance(ddp, _Attached):
        ddp.__class__ = _attached_class(type(ddp))
        ddp._neuron_fabric_hooks = set()
        if ddp.device_type == "cuda":
            handle = ddp.register_forward_pre_hook(_reject_graph_capture)
            ddp._neuron_fabric_hooks.add(handle.id)
    ddp._neuron_fabric = session


def follow_scaler(ddp: DistributedDataParallel, runtime: Any, scaler: Any) -> None:
    """pass_scale() for a model that mark_attached() has marked."""
    ddp._neuron_fabric_hooks.add(pass_scale(ddp, runtime, scaler).id)


def pass_scale(model: torch.nn.Module, runtime: Any, scaler: Any) -> Any:
    """Passes the scaler's scale to the runtime before the first forward pass of every step. Returns the
    handle of the hook."""
    return model.register_forward_pre_hook(_LossScale(runtime, scaler))


def _reject_graph_capture(_module: object, _inputs: object) -> None:
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "a CUDA graph is being captured around an attached model. The runtime chooses routes and "
            "exchanges statistics on the host in every step, which a replayed graph skips. Capture the "
            "module before DistributedDataParallel wraps it (torch.cuda.make_graphed_callables), or set "
            "NF_MODE=off"
        )


class _LossScale:
    """A forward pre-hook. Reading the scale waits for the device, so it is read once per step, not once
    per micro-batch."""

    def __init__(self, runtime: Any, scaler: Any) -> None:
        self._runtime, self._scaler, self._step = runtime, scaler, -1

    def __call__(self, _module: object, _inputs: object) -> None:
        if (step := self._runtime.step) != self._step:
            self._runtime.set_loss_scale(self._scaler.get_scale())
            self._step = step


class _Attached:
    _plain_class: type[DistributedDataParallel]

    def join_hook(self, **options: object) -> object:
        if not options.get("divide_by_initial_world_size", True):
            raise RuntimeError(
                "join(divide_by_initial_world_size=False) is not supported: gradients are divided "
                "by the number of all ranks before they are summed"
            )
        return super().join_hook(**options)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        del state["_neuron_fabric"]
        ours = state.pop("_neuron_fabric_hooks")
        for hooks in ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"):
            state[hooks] = OrderedDict(
                (key, hook) for key, hook in state[hooks].items() if key not in ours)
        return state

    def __reduce_ex__(self, _protocol: int) -> tuple:
        return copyreg._reconstructor, (self._plain_class, object, None), self.__getstate__()


@functools.cache
def _attached_class(plain: type[DistributedDataParallel]) -> type[DistributedDataParallel]:
    return type(plain.__name__, (_Attached, plain),
                {"_plain_class": plain, "__module__": plain.__module__, "__doc__": plain.__doc__})
