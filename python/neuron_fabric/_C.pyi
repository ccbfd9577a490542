"""The extension, as python/csrc/bindings.cc makes it. `import torch` comes before it."""

from typing import Any

import torch
from torch.distributed import GradBucket, ProcessGroup, Reducer, Store

__version__: str
built_for_torch: str
"""Its version when this was compiled."""
devices: str
"""What this build sums on beside the host: "cuda" or nothing."""

class Runtime:
    """One model's fabric: core, process groups and worker thread. Any thread may call it."""

    def __init__(
        self,
        names: list[str],
        module_types: list[str],
        tensors: list[torch.Tensor],
        training_group: ProcessGroup,
        own_group: ProcessGroup,
        store: Store,
        prefix: str,
        options: dict[str, Any],
    ) -> None: ...
    @property
    def step(self) -> int: ...
    @property
    def topology(self) -> str: ...
    @property
    def place(self) -> str:
        """Where gradients are summed: "host" or "cuda"."""

    @property
    def why_on_host(self) -> str:
        """Why gradients of a device are brought to the host; empty where they are not."""

    @property
    def held_bytes(self) -> int:
        """Of device memory, beside the gradients."""

    def register(self, reducer: Reducer) -> None: ...
    def run(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]: ...
    def observe_loss(self, loss: float, /) -> None: ...
    def set_loss_scale(self, scale: float, /) -> None: ...
    def report_capacity_breach(self) -> None: ...
    def should_step(self) -> bool | None: ...
    def records(self) -> list[str]: ...
    def drain(self) -> None: ...
    def state(self) -> str: ...
    def load_state(self, state: str, /) -> None: ...
    def memory(self) -> list[tuple[str, int, str, int, torch.Tensor]]:
        """(route, parameter, what, rows, values); load_memory() takes the same."""

    def load_memory(self, memory: list[tuple[str, int, str, int, torch.Tensor]], /) -> None: ...
    def detach(self) -> None: ...
    def close(self) -> None: ...

def reducer_parameters(reducer: Reducer, /) -> list[tuple[torch.Tensor, bool]]:
    """What it reduces, in the order of its buckets, each with whether it expects sparse gradients."""

def parse_profile(text: str, origin: str, /) -> str: ...
def static_profile(route: str, /) -> str: ...
def default_profile(
    names: list[str], module_types: list[str], tensors: list[torch.Tensor], /
) -> str: ...
def binding_hash(
    profile: str, names: list[str], module_types: list[str], tensors: list[torch.Tensor], /
) -> int: ...
def region_names(
    profile: str, names: list[str], module_types: list[str], tensors: list[torch.Tensor], /
) -> list[str]:
    """The region of every parameter."""

def contribution_bytes(
    route: str, names: list[str], module_types: list[str], tensors: list[torch.Tensor], /
) -> int:
    """What one rank sends of these along a route, before the sum comes back."""

def remembers(route: str, /) -> bool:
    """Whether ranks keep what a step has lost along a route for the next one."""

def reason_names() -> list[str]: ...
def parameter_key(name: str, /) -> int: ...

def bench_all_reduce(training: ProcessGroup, own: ProcessGroup, request: str, /) -> None:
    """One rank's part of `nf bench all_reduce`, whose request nf writes. Rank 0 prints. The second
    group is for it alone, and lives until all ranks have returned."""
