"""The parameters of a model: their names, the types of the modules that own them, and themselves."""

from dataclasses import dataclass

import torch

# What wrappers put in front of a parameter's name.
_PREFIXES = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.")


@dataclass(frozen=True)
class ModelParameters:
    names: list[str]
    module_types: list[str]
    tensors: list[torch.Tensor]


def plain_name(name: str) -> str:
    """The name that the parameter has in the model as the user wrote it."""
    for prefix in _PREFIXES:
        name = name.replace(prefix, "") if prefix != "module." else name.removeprefix(prefix)
    return name


def parameters_of(module: torch.nn.Module) -> ModelParameters:
    """Those that get a gradient, in the order of the model."""
    owners = dict(module.named_modules())
    names, types, tensors = [], [], []
    for name, tensor in module.named_parameters():
        if tensor.requires_grad:
            names.append(plain_name(name))
            types.append(type(owners[name.rpartition(".")[0]]).__name__)
            tensors.append(tensor)
    return ModelParameters(names, types, tensors)


def sparse_embedding(module: torch.nn.Module) -> str | None:
    """The name of a module whose gradients are sparse, if there is one."""
    for name, child in module.named_modules():
        if getattr(child, "sparse", False) is True:
            return name
    return None
