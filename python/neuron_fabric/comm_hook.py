"""The runtime as a Python communication hook, for frameworks that register hooks themselves.

    state = nf.HookState(module, route="waterfill:4")
    ddp_model.register_comm_hook(state, nf.hook)

It sums as attach() does, at the price of a call into Python for every bucket.
"""

import torch
import torch.distributed as dist

from neuron_fabric.fabric import Fabric
from neuron_fabric.session import Session
from neuron_fabric.settings import Settings, mode


class HookState:
    """Takes the options of attach(). Begins with the first bucket, on all ranks at the same time."""

    def __init__(
        self,
        module: torch.nn.Module,
        profile: object = None,
        *,
        process_group: dist.ProcessGroup | None = None,
        **options: object,
    ) -> None:
        self.module = module
        self.process_group = process_group
        self.settings = Settings(profile=profile, **options)
        self._session: Session | None = None

    def session(self) -> Session:
        if self._session is None:
            self._session = Session(self.module, self.process_group, self.settings)
        return self._session

    @property
    def fabric(self) -> Fabric:
        """What attach() would have returned. Collective when it is first used."""
        return Fabric(None if mode() == "off" else self.session(), self.module)


# DDP reads these annotations: they must be the classes themselves.
def hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    if mode() == "off":
        group = state.process_group or dist.group.WORLD
        tensor = bucket.buffer().div_(dist.get_world_size(group))
        future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])
    # DDP wants a value made in Python.
    return state.session().runtime.run(bucket).then(lambda done: done.value())
