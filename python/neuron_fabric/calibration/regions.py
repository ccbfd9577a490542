"""The regions of a model for which routes are selected."""

import json
from dataclasses import dataclass

from neuron_fabric import _C
from neuron_fabric.calibration.evidence import RegionFacts
from neuron_fabric.model import ModelParameters
from neuron_fabric.telemetry.records import DENSE_ROUTE

MAX_PATTERNS = 256  # per region (docs/profile_format.md)


@dataclass(frozen=True)
class Region:
    """A region in the syntax of profiles, with its parameters."""

    pattern: dict[str, object]  # name, names, module_types
    members: list[int]          # indices into the model's parameters
    is_small: list[bool]        # of each: dense on every route

    @property
    def name(self) -> str:
        return str(self.pattern["name"])

    @property
    def large_members(self) -> list[int]:
        return [index for index, small in zip(self.members, self.is_small, strict=True)
                if not small]


def find_regions(parameters: ModelParameters, smallest: int, depth: int) -> list[Region]:
    """The regions of attach() without a profile. The last one, the backbone, is split into `depth` parts
    of about equal size from the model's inputs to its outputs."""
    text = _C.default_profile(parameters.names, parameters.module_types, parameters.tensors)
    patterns = json.loads(text)["regions"]
    members: dict[str, list[int]] = {pattern["name"]: [] for pattern in patterns}
    found = _C.region_names(text, parameters.names, parameters.module_types, parameters.tensors)
    for index, name in enumerate(found):
        members[name].append(index)
    last = patterns[-1]["name"]
    parts = _split([(index, parameters.tensors[index].numel()) for index in members[last]], depth)
    if len(parts) > 1 and max(map(len, parts)) <= MAX_PATTERNS:
        patterns.pop()
        for number, part in enumerate(parts, 1):
            name = f"{last}{number}"
            members[name] = part
            named = {"names": [parameters.names[index] for index in part]}
            patterns.append({"name": name} | (named if number < len(parts) else {}))
    return [Region(pattern, members[pattern["name"]],
                   [parameters.tensors[index].numel() < smallest
                    for index in members[pattern["name"]]])
            for pattern in patterns if members[pattern["name"]]]


def _split(sizes: list[tuple[int, int]], parts: int) -> list[list[int]]:
    """Consecutive parts of about equal weight; no part is empty."""
    total = sum(size for _, size in sizes)
    result: list[list[int]] = [[] for _ in range(parts)]
    before = 0
    for index, size in sizes:
        middle = (before + size / 2) / total
        result[min(parts - 1, int(middle * parts))].append(index)
        before += size
    return [part for part in result if part]


def facts_of(region: Region, parameters: ModelParameters, routes: list[str]) -> RegionFacts:
    large = region.large_members
    values = sum(parameters.tensors[index].numel() for index in large)
    everything = sum(parameters.tensors[index].numel() for index in region.members)
    return RegionFacts(
        name=region.name, parameters=len(region.members), values=values,
        small_values=everything - values,
        bytes_up={route: _C.contribution_bytes(
            route, [parameters.names[index] for index in large],
            [parameters.module_types[index] for index in large],
            [parameters.tensors[index] for index in large]) for route in [DENSE_ROUTE, *routes]})
