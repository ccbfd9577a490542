"""nf.attach() for FSDP2. PyTorch's FSDP is imported only if a model uses it.

    groups      the parameter groups of a model, and the gradients present in a backward pass
    backward    the buckets of one backward pass
    shards      fully_shard() on a mesh of one dimension: a low-bit reduce-scatter
    replicas    HSDP and replicate(): a low-bit all-reduce between replicas
"""

from typing import Any

from neuron_fabric.fabric import Fabric


def attach_fsdp(model: Any, options: dict[str, Any]) -> Fabric:
    """options: the arguments of nf.attach()."""
    from neuron_fabric.fsdp.groups import find_layout
    from neuron_fabric.fsdp.replicas import attach_replicas
    from neuron_fabric.fsdp.shards import attach_shards

    layout = find_layout(model)
    return attach_shards(model, layout, options) if layout.replicas is None else attach_replicas(
        model, layout, options)
