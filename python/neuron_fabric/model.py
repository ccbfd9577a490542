"""The parameters of a model: names, tensors, and the types of the modules that own them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

# Prefixes that wrappers add to a parameter's name.
_PREFIXES = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.")

ROUTED_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_SHOWN_NAMES = 5


@dataclass(frozen=True)
class ModelParameters:
    """The parameters that have a route. `unrouted` are the others that are reduced."""

    names: list[str]
    module_types: list[str]
    tensors: list[torch.Tensor]
    unrouted: "list[Unrouted]" = field(default_factory=list)

    def map(self, change: "Callable[[torch.Tensor], torch.Tensor]") -> "ModelParameters":
        """The same parameters with other tensors."""
        return ModelParameters(self.names, self.module_types, [change(one) for one in self.tensors],
                               [Unrouted(one.name, change(one.tensor), one.why) for one in self.unrouted])

    def only(self, keeps: "Callable[[torch.Tensor], bool]") -> "ModelParameters":
        """The parameters whose tensors are to be kept."""
        kept = [row for row in zip(self.names, self.module_types, self.tensors, strict=True) if keeps(row[2])]
        names, module_types, tensors = map(list, zip(*kept, strict=True)) if kept else ([], [], [])
        return ModelParameters(names, module_types, tensors,
                               [one for one in self.unrouted if keeps(one.tensor)])

    def unrouted_text(self) -> str:
        """The unrouted parameters in words; empty if there are none."""
        if not self.unrouted:
            return ""
        shown = ", ".join(f"{one.name} ({one.why})" for one in self.unrouted[:_SHOWN_NAMES])
        more = len(self.unrouted) - _SHOWN_NAMES
        return (f"reduced without the runtime: {shown}{f' and {more} more' if more > 0 else ''}; only float32, "
                "bfloat16 and float16 have low-bit routes")


@dataclass(frozen=True)
class Unrouted:
    """A parameter whose gradients are reduced as without the runtime, and the reason."""

    name: str
    tensor: torch.Tensor
    why: str


def plain_name(name: str) -> str:
    """The name of the parameter in the user's model, without the prefixes of wrappers."""
    for prefix in _PREFIXES:
        name = name.replace(prefix, "") if prefix != "module." else name.removeprefix(prefix)
    return name


def parameters_of(
    module: torch.nn.Module, reduced: Sequence[tuple[torch.Tensor, bool]] | None = None
) -> ModelParameters:
    """The parameters that have a gradient, in the order of the model.

    reduced: the tensors of DDP's reducer, each with whether it expects sparse gradients
        (_C.reducer_parameters()). None: all parameters that require a gradient.
    """
    expects_sparse = {id(tensor): is_sparse for tensor, is_sparse in reduced or ()}
    named = [(name, tensor) for name, tensor in module.named_parameters()
             if (tensor.requires_grad if reduced is None else id(tensor) in expects_sparse)]
    if reduced is not None and len(named) < len(expects_sparse):
        raise ValueError(_replaced(named, reduced))
    names = _plain_names([name for name, _ in named])
    owners = dict(module.named_modules())
    result = ModelParameters([], [], [])
    for (full_name, tensor), name in zip(named, names, strict=True):
        if why := _why_unrouted(tensor, expects_sparse.get(id(tensor), False)):
            result.unrouted.append(Unrouted(name, tensor, why))
            continue
        result.names.append(name)
        result.module_types.append(type(owners[full_name.rpartition(".")[0]]).__name__)
        result.tensors.append(tensor)
    return result


def plain_parameters(tensors: Mapping[str, torch.Tensor]) -> ModelParameters:
    """The parameters of a source that has no modules."""
    result = ModelParameters([], [], [])
    for name, tensor in tensors.items():
        if why := _why_unrouted(tensor, is_sparse=tensor.is_sparse):
            result.unrouted.append(Unrouted(name, tensor, why))
            continue
        result.names.append(name)
        result.module_types.append("")
        result.tensors.append(tensor)
    return result


def _plain_names(names: Sequence[str]) -> list[str]:
    """Plain names; if two parameters would share one, both keep their full names."""
    count = Counter(map(plain_name, names))
    return [name if count[plain_name(name)] > 1 else plain_name(name) for name in names]


def _why_unrouted(tensor: torch.Tensor, is_sparse: bool) -> str:
    if is_sparse:
        return "sparse gradients"
    return "" if tensor.dtype in ROUTED_TYPES else str(tensor.dtype).removeprefix("torch.")


def _replaced(named: Sequence[tuple[str, torch.Tensor]],
              reduced: Sequence[tuple[torch.Tensor, bool]]) -> str:
    known = {id(tensor) for _, tensor in named}
    lost = next(tensor for tensor, _ in reduced if id(tensor) not in known)
    return (f"DistributedDataParallel reduces a parameter of shape {tuple(lost.shape)} that the model no "
            "longer has: it was replaced after DistributedDataParallel(model); wrap the model again")


def check_devices(tensors: Sequence[torch.Tensor]) -> None:
    """Raises ValueError unless all tensors are on the host, or on one CUDA device."""
    devices = sorted({str(tensor.device) for tensor in tensors})
    if len(devices) > 1:
        raise ValueError(f"the model's parameters are on several devices ({', '.join(devices)}); the "
                         "runtime serves one device per process")
    kind = tensors[0].device.type
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"the model is on {devices[0]}: gradients on devices of type {kind} are not "
                         "supported; cpu and cuda are")


def local_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's shard of a DTensor; any other tensor itself. Without its autograd history."""
    from torch.distributed.tensor import DTensor

    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def all_finite(gradients: Sequence[torch.Tensor]) -> bool:
    """Whether all values are finite. Synchronises with each device once."""
    by_device: dict[torch.device, list[torch.Tensor]] = {}
    for gradient in gradients:
        values = gradient._values() if gradient.is_sparse else gradient
        by_device.setdefault(values.device, []).append(torch.isfinite(values).all())
    return all(bool(torch.stack(flags).all()) for flags in by_device.values())
