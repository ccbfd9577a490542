"""NEURON-Fabric under Accelerate.

    from neuron_fabric.integrations.accelerate import attach

    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    fabric = attach(accelerator, model, admit="safe")

Do not pass the fabric to accelerator.register_for_checkpointing(): it saves only the state of the main
process.
"""

import os
from typing import Any

import torch

import neuron_fabric as nf
from neuron_fabric.integrations.framework import is_single_process, missing, unwrapped
from neuron_fabric.integrations.state import load_state, save_state
from neuron_fabric.model import parameters_of

try:
    from accelerate import Accelerator
except ModuleNotFoundError as error:
    if error.name != "accelerate":
        raise
    raise missing("accelerate", __name__) from error


def attach(accelerator: Accelerator, model: torch.nn.Module, **options: Any) -> nf.Fabric:
    """nf.attach() for a model that accelerator.prepare() returned. accelerator.save_state() then also
    writes the state of every rank to a separate file, and accelerator.load_state() loads it.

    options: the settings of nf.attach(). By default its scaler is that of mixed_precision="fp16".

    With one process and without DDP, the fabric is a no-op, as with NF_MODE=off.
    """
    if _find(accelerator, model) is None:
        raise ValueError("the model is not one of this accelerator's: pass the model that "
                         "accelerator.prepare() returned")
    if is_single_process(model, accelerator.num_processes):
        return nf.Fabric(None, parameters_of(model))
    fabric = nf.attach(model, **{"scaler": accelerator.scaler} | options)

    def save(_models: list[torch.nn.Module], _weights: list[dict], folder: str | os.PathLike) -> None:
        if (index := _find(accelerator, model)) is not None:
            save_state(fabric, folder, _name(index))

    def load(_models: list[torch.nn.Module], folder: str | os.PathLike) -> None:
        if (index := _find(accelerator, model)) is not None:
            load_state(fabric, folder, _name(index))

    accelerator.register_save_state_pre_hook(save)
    accelerator.register_load_state_pre_hook(load)
    return fabric


def _name(index: int) -> str:
    """The name of the files of one model, numbered as Accelerate numbers those of weights."""
    return "neuron_fabric" if index == 0 else f"neuron_fabric_{index}"


def _find(accelerator: Accelerator, model: torch.nn.Module) -> int | None:
    """None if it is not there, as after accelerator.free_memory(). Other hooks may remove models from
    the list that hooks receive, so this reads the accelerator's own list, which has the models before
    DDP wrapped them."""
    for index, other in enumerate(accelerator._models):
        if unwrapped(other) is unwrapped(model):
            return index
    return None
