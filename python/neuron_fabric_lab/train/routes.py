"""Attaches a route to a DDP model, by its name."""

from typing import TYPE_CHECKING, Any

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from .options import TrainOptions

if TYPE_CHECKING:
    from neuron_fabric import Fabric

PLAIN = {"plain": 1.0, "plain_bf16": 0.5}  # without the runtime: bytes relative to FP32


def check_route(options: TrainOptions) -> None:
    """Raises ValueError if the route, or its profile, does not exist."""
    if options.route in PLAIN or options.route == "default":
        return
    from neuron_fabric.profile import Profile, resolve

    if options.profile is not None:
        Profile.load(options.profile)
    elif options.route.startswith("profile"):
        raise ValueError("a profile must be given as profile:FILE")
    else:
        resolve(None, options.route, None)


def attach(ddp: DistributedDataParallel, options: TrainOptions) -> "Fabric | None":
    """None for plain DDP. Collective."""
    if options.route == "plain":
        return None
    if options.route == "plain_bf16":
        ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
        return None
    import neuron_fabric as nf  # plain DDP needs no extension

    how: dict[str, Any] = {"route": options.route}
    if options.route == "default" or options.profile is not None:
        how = {"profile": options.profile, "admit": options.admit}
    return nf.attach(ddp, topology=options.topology, reducer=options.reducer,
                     record=options.record, run_dir=options.run_dir, **how)
