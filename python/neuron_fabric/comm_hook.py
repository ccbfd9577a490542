"""The runtime as a Python communication hook, for frameworks that register hooks themselves.

    state = nf.HookState(module, route="waterfill:4")
    ddp_model.register_comm_hook(state, nf.hook)

It reduces gradients as attach() does, with the overhead of one call into Python per bucket.
"""

import weakref

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import _C
from neuron_fabric.attached import mark_attached
from neuron_fabric.ddp import ddp_source
from neuron_fabric.fabric import Fabric
from neuron_fabric.model import ModelParameters
from neuron_fabric.session import Session, open_session
from neuron_fabric.settings import Settings


class HookState:
    """The state of nf.hook. Takes the settings of attach() except `scaler`: a hook does not see the forward
    pass, so call fabric.set_loss_scale() before each backward if there is a GradScaler. The session
    opens with the first bucket, on all ranks at the same time.

    One state serves one model: a bucket of another model is rejected before any communication. `module`
    may be the DistributedDataParallel object or the module inside it.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        profile: object = None,
        *,
        process_group: dist.ProcessGroup | None = None,
        **options: object,  # of neuron_fabric.settings
    ) -> None:
        if "scaler" in options:
            raise TypeError("nf.HookState takes no scaler: call "
                            "state.fabric.set_loss_scale(scaler.get_scale()) before each backward")
        wrapper = module if isinstance(module, DistributedDataParallel) else None
        self.module = module if wrapper is None else wrapper.module
        self.process_group = process_group
        self.settings = Settings(profile=profile, **options)
        self._session: Session | None = None
        self._parameters: ModelParameters | None = None  # set when the session opens
        self._reduced: list[tuple[torch.Tensor, bool]] | None = None  # once the wrapper is known
        self._known: set[int] = set()  # identities of the module's parameters
        if wrapper is not None:
            self._set_wrapper(wrapper)
        else:
            self._finder = module.register_forward_pre_hook(_FindWrapper(weakref.ref(self)))

    def session(self) -> Session | None:
        """The session; None if NF_MODE is off. The first call is collective."""
        if self._parameters is None:
            self._session, self._parameters = open_session(
                ddp_source(self.module, self._reduced), self.process_group, lambda: self.settings,
                self.settings.timeout,
            )
        return self._session

    @property
    def fabric(self) -> Fabric:
        """The Fabric that attach() would return. The first use is collective."""
        session = self.session()
        assert self._parameters is not None
        return Fabric(session, self._parameters)

    def find_wrapper(self, ddp: DistributedDataParallel | None) -> None:
        """Called in the forward pass of the module. `ddp` is the DDP model that runs it, if any."""
        if ddp is not None and any(state is self for _, state in ddp._comm_hooks):
            self._set_wrapper(ddp)
            self._finder.remove()

    def _set_wrapper(self, ddp: DistributedDataParallel) -> None:
        # Never called in the backward pass, during which the reducer holds its lock.
        self._reduced = _C.reducer_parameters(ddp.reducer)
        mark_attached(ddp, None)

    def check_bucket(self, bucket: dist.GradBucket) -> None:
        """Raises RuntimeError if the bucket has a parameter of another model."""
        parameters = bucket.parameters()
        if all(id(parameter) in self._known for parameter in parameters):
            return
        self._known = set(map(id, self.module.parameters()))
        for parameter in parameters:
            if id(parameter) not in self._known:
                raise RuntimeError(
                    f"this nf.HookState was made for a {type(self.module).__name__} without the parameter of "
                    f"shape {tuple(parameter.shape)} in bucket {bucket.index()}: make one state per model, "
                    "from the module inside its DistributedDataParallel")


class _FindWrapper:
    """A forward pre-hook that finds the DDP model around a module. It does not keep the state alive. Its
    copies and pickles are no-ops."""

    def __init__(self, state: "weakref.ref[HookState] | None" = None) -> None:
        self._state = state

    def __call__(self, _module: object, _inputs: object) -> None:
        if self._state is not None and (state := self._state()) is not None:
            state.find_wrapper(DistributedDataParallel._get_active_ddp_module())

    def __reduce__(self) -> tuple:
        return _FindWrapper, ()


# DDP reads these annotations: they must be the classes themselves.
def hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    state.check_bucket(bucket)
    session = state.session()
    if session is None:
        group = state.process_group or dist.group.WORLD
        tensor = bucket.buffer().div_(dist.get_world_size(group))
        future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])
    # DDP expects a value made in Python.
    return session.runtime.run(bucket).then(lambda done: done.value())
