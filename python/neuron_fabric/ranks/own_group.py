"""The process group of an attached model. It is separate from the user's groups, so the runtime never
interleaves with the user's collectives.

It is not in the registry of torch.distributed: new_group() derives names from the number of groups of
each rank, which differs once some ranks have made a group without the others, and registered groups
live as long as the process.
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

from neuron_fabric.ranks.group_name import draw_name
from neuron_fabric.ranks.rendezvous import AttachError


def own_group(group: dist.ProcessGroup, seconds: float) -> dist.ProcessGroup:
    """Returns another group of the same ranks, over Gloo, with a name that is new in the job's store.
    All ranks call it at the same time. Raises AttachError if some ranks do not call it or cannot be
    reached."""
    store = dist.distributed_c10d._get_default_store()
    name = draw_name(store, group, seconds)
    store = dist.PrefixStore(name, store)
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    own = dist.ProcessGroup(store, rank, ranks)
    try:
        gloo = dist.ProcessGroupGloo(store, rank, ranks, timedelta(seconds=seconds))
    except RuntimeError as error:
        interface = os.environ.get("GLOO_SOCKET_IFNAME")
        chosen = f"is {interface!r}" if interface else "is not set: Gloo uses the host name's address"
        raise AttachError(
            f"rank {rank} could not connect to its peers over Gloo, which the runtime uses in addition "
            f"to the model's backend ({str(error).splitlines()[0]}); GLOO_SOCKET_IFNAME {chosen}. Set it "
            "to the interface that reaches all hosts, like NCCL_SOCKET_IFNAME for NCCL"
        ) from error
    own._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    own._set_group_name(name)
    return own
