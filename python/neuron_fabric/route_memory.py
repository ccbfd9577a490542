"""The route memory of a rank in a checkpoint: the core's keys as names of parameters, and back."""

from collections.abc import Iterable

import torch

from neuron_fabric import _C
from neuron_fabric.model import ModelParameters

_KEYS = {"route", "parameter", "what", "rows", "values"}

Item = dict[str, object]
CoreItem = tuple[str, int, str, int, torch.Tensor]  # of _C.Runtime.memory()


def memory_items(memory: Iterable[CoreItem], parameters: ModelParameters, shards: int) -> list[Item]:
    """shards: the number of parts of each parameter that have memory of their own; 0 if parameters are whole."""
    owners: dict[int, Item] = {}
    for name in parameters.names:
        if shards == 0:
            owners[_C.parameter_key(name)] = {"parameter": name}
        for shard in range(shards):
            owners[_C.shard_key(_C.parameter_key(name), shard)] = {"parameter": name, "shard": shard}
    return [{"route": route, **owners[key], "what": what, "rows": rows, "values": values}
            for route, key, what, rows, values in memory if key in owners]


def core_items(items: Iterable[Item]) -> list[CoreItem]:
    def key(item: Item) -> int:
        whole = _C.parameter_key(item["parameter"])
        return _C.shard_key(whole, item["shard"]) if "shard" in item else whole

    return [(item["route"], key(item), item["what"], item["rows"], item["values"]) for item in items]


def check_memory(items: Iterable[Item], parameters: ModelParameters) -> None:
    """Raises ValueError if it belongs to another model."""
    sizes = {name: tensor.numel()
             for name, tensor in zip(parameters.names, parameters.tensors, strict=True)}
    for item in items:
        if missing := _KEYS - item.keys():
            raise ValueError(f"the memory of the state has no {', '.join(sorted(missing))}")
        name, values = item["parameter"], item["values"]
        if name not in sizes:
            raise ValueError(
                f"the state is from another model: it contains {name}, which this model does not have")
        # The basis of powersgd is smaller than the parameter, and so is a shard.
        is_part = item["what"] == "basis" or "shard" in item
        if values.numel() > sizes[name] or (values.numel() < sizes[name] and not is_part):
            raise ValueError(
                f"the state is from another model: it contains {values.numel()} values of {name}, "
                f"which has {sizes[name]} in this model")
