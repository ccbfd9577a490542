"""The parts of a Fabric state in a checkpoint of torch.distributed.checkpoint (DCP), below its key:

    neuron_fabric                 the jobs of the model, their step, the names of the parameters
    shards.S.decisions            profile, decisions and statistics of the job of shard S
    shards.S.ranks.R.own          what only rank R of that job has: its pending observations, and the items
                                  of its route memory without their values
    shards.S.ranks.R.values       these values, one item after the other; only if there are any
    within                        the same parts of the jobs within replicas, with replicas instead of shards; only
                                  with within_replicas="low_bit"

Texts are JSON. HSDP has a job per shard; other sources have one job, of shard 0.
"""

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from neuron_fabric.jobs import Jobs

ABOUT, WITHIN = "neuron_fabric", "within"

_FORMAT = "neuron_fabric.checkpoint"
_VERSION = 1


@dataclass(frozen=True)
class About:
    jobs: Jobs
    step: int
    names: list[str]  # of the parameters

    def print(self) -> str:
        return json.dumps({"format": _FORMAT, "version": _VERSION, "jobs": vars(self.jobs), "step": self.step,
                           "parameters": self.names})

    @classmethod
    def parse(cls, text: str) -> "About":
        about = json.loads(text)
        if not isinstance(about, dict) or about.get("format") != _FORMAT:
            raise ValueError("the checkpoint has no Fabric state, but another one with the same key")
        if about.get("version") != _VERSION:
            raise ValueError(f"the Fabric state of the checkpoint has version {about.get('version')}, this "
                             f"build reads version {_VERSION}")
        return cls(Jobs(**about["jobs"]), about["step"], about["parameters"])


def save_parts(state: dict[str, Any], shard: int) -> dict[str, Any]:
    """The parts that a rank saves of its Fabric.state_dict(). Equal parts of several ranks have one key, and
    DCP saves them once."""
    shared = json.loads(state["state"])
    items = [{name: value for name, value in item.items() if name != "values"}
             | {"count": item["values"].numel()} for item in state["memory"]]
    own: dict[str, Any] = {"own": json.dumps({"pending": shared.pop("pending"), "memory": items})}
    if items:
        own["values"] = torch.cat([item["values"] for item in state["memory"]])
    decisions = {"profile": state["profile"], "state": shared, "memory": len(items)}
    return {"shards": {str(shard): {"decisions": json.dumps(decisions), "ranks": {str(state["rank"]): own}}}}


@dataclass(frozen=True)
class Loaded:
    """The parts that a rank has loaded."""

    profile: str
    shared: dict[str, Any]  # the state without `pending`
    tensors: int  # of the route memory of each rank
    own: dict[str, Any] | None  # of this rank

    @classmethod
    def find(cls, parts: dict[str, Any], shard: int, rank: int) -> "Loaded":
        [text] = [one["decisions"] for one in parts["shards"].values() if "decisions" in one]
        decisions = json.loads(text)
        own = parts["shards"].get(str(shard), {}).get("ranks", {}).get(str(rank))
        return cls(decisions["profile"], decisions["state"], decisions["memory"], own)

    def state(self, with_own: bool) -> dict[str, Any]:
        """The argument of Fabric.check() and Fabric.restore()."""
        if not with_own:
            return {"profile": self.profile, "state": json.dumps(self.shared), "memory": []}
        own = json.loads(self.own["own"])
        values = self.own.get("values", torch.empty(0))
        counts = [item["count"] for item in own["memory"]]
        if values.numel() != sum(counts):
            raise ValueError(f"the checkpoint has {values.numel()} values of the route memory of this rank "
                             f"instead of {sum(counts)}; load another checkpoint")
        memory = [item | {"values": part}
                  for item, part in zip(own["memory"], values.split(counts), strict=True)]
        return {"profile": self.profile, "state": json.dumps(self.shared | {"pending": own["pending"]}),
                "memory": memory}


class SavedKeys:
    """The keys of one Fabric state in the metadata of a checkpoint."""

    def __init__(self, metadata: Metadata, key: str) -> None:
        prefix = f"{key}."
        self._entries = {tuple(name.removeprefix(prefix).split(".")): entry
                         for name, entry in metadata.state_dict_metadata.items() if name.startswith(prefix)}
        self._shards = sorted({int(path[1]) for path in self._entries if path[0] == "shards"})
        self.has_within = any(path[0] == WITHIN for path in self._entries)

    @staticmethod
    def find(metadata: Metadata) -> list[str]:
        """The keys of all Fabric states."""
        end, inner = f".{ABOUT}", f".{WITHIN}.{ABOUT}"
        return sorted(name.removesuffix(end) for name in metadata.state_dict_metadata
                      if name.endswith(end) and not name.endswith(inner))

    def to_load(self, jobs: Jobs, shard: int, rank: int) -> dict[str, Any]:
        """Placeholders for the parts that this rank loads; empty if the job saved before its first step.
        The part of a rank is left out if the checkpoint is from another number of ranks."""
        if not self._shards:
            return {}
        # The shard at the same place of the parameters.
        source = self._shards[shard * len(self._shards) // jobs.count]
        parts: dict[str, Any] = {str(source): {"decisions": ""}}
        ranks = sum(path[0] == "shards" and path[-1] == "own" for path in self._entries)
        own = {path[-1]: _placeholder(entry) for path, entry in self._entries.items()
               if path[:-1] == ("shards", str(shard), "ranks", str(rank))}
        # One rank: a folder per rank, of dcp.save(no_dist=True).
        if own and ranks in (1, jobs.ranks * jobs.count):
            parts.setdefault(str(shard), {})["ranks"] = {str(rank): own}
        return {"shards": parts}


def _placeholder(entry: object) -> object:
    is_tensor = isinstance(entry, TensorStorageMetadata)
    return torch.empty(entry.size, dtype=entry.properties.dtype) if is_tensor else ""
