"""The process group behind an attached model: its own, so that nothing of ours comes between the
user's collectives.

It is not in the registry of torch.distributed. The names that new_group() gives count the groups of
a rank, which differ once some ranks have made one without the others, and such groups live as long
as the process.
"""

import collections
import os
from datetime import timedelta

import torch
import torch.distributed as dist

_made: collections.Counter[str] = collections.Counter()


def own_group(group: dist.ProcessGroup, seconds: float) -> dist.ProcessGroup:
    """Another group of the same ranks, over Gloo; its name is unlike any before it in the job's
    store. All of them call it at the same time."""
    _made[group.group_name] += 1
    name = f"neuron_fabric/{_attempt()}/{group.group_name}/{_made[group.group_name]}"
    store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    own = dist.ProcessGroup(store, rank, ranks)
    gloo = dist.ProcessGroupGloo(store, rank, ranks, timedelta(seconds=seconds))
    own._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    own._set_group_name(name)
    return own


def _attempt() -> str:
    """A job that torchrun has started again may find the store of the one before."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
