"""The runtime as a Python communication hook, for frameworks that register hooks themselves.

    state = nf.HookState(module, route="waterfill:4")
    ddp_model.register_comm_hook(state, nf.hook)

It sums as attach() does, at the price of a call into Python for every bucket.
"""

import torch
import torch.distributed as dist

from neuron_fabric.fabric import Fabric
from neuron_fabric.session import Session, open_session
from neuron_fabric.settings import Settings


class HookState:
    """Takes the options of attach() but `scaler`: a hook does not see the forward pass, so whoever has a
    GradScaler calls fabric.set_loss_scale() before each backward. Begins with the first bucket, on all ranks
    at the same time."""

    def __init__(
        self,
        module: torch.nn.Module,
        profile: object = None,
        *,
        process_group: dist.ProcessGroup | None = None,
        **options: object,
    ) -> None:
        if "scaler" in options:
            raise TypeError("nf.HookState takes no scaler: call "
                            "state.fabric.set_loss_scale(scaler.get_scale()) before each backward")
        self.module = module
        self.process_group = process_group
        self.settings = Settings(profile=profile, **options)
        self._session: Session | None = None
        self._has_begun = False

    def session(self) -> Session | None:
        """None where NF_MODE is off. Collective when it is first called."""
        if not self._has_begun:
            self._session = open_session(
                self.module, self.process_group, lambda: self.settings, self.settings.timeout
            )
            self._has_begun = True
        return self._session

    @property
    def fabric(self) -> Fabric:
        """What attach() would have returned. Collective when it is first used."""
        return Fabric(self.session(), self.module)


# DDP reads these annotations: they must be the classes themselves.
def hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    session = state.session()
    if session is None:
        group = state.process_group or dist.group.WORLD
        tensor = bucket.buffer().div_(dist.get_world_size(group))
        future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])
    # DDP wants a value made in Python.
    return session.runtime.run(bucket).then(lambda done: done.value())
