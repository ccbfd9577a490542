"""The extension of python/csrc/bindings.cc. Import torch first."""

from typing import Any

import torch
from torch.distributed import GradBucket, ProcessGroup, Reducer, Store

__version__: str
built_for_torch: str
"""The version of PyTorch that the extension was compiled with."""
devices: str
"""The devices that this build reduces on, besides the host: "cuda" or empty."""
architectures: str
"""Those of its device code, values of CMAKE_CUDA_ARCHITECTURES separated by commas; empty without CUDA."""

class Runtime:
    """The fabric of one model: core, process groups and worker thread. Thread-safe."""

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
        """Where gradients are reduced: "host" or "cuda"."""

    @property
    def why_on_host(self) -> str:
        """Why gradients of a device are staged through host memory; empty if they are not."""

    @property
    def held_bytes(self) -> int:
        """Peak device memory, without the gradients."""

    def register(self, reducer: Reducer) -> None: ...
    def run(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]: ...
    def run_values(
        self,
        buffer: torch.Tensor,
        index: int,
        is_last: bool,
        is_mean: bool,
        slots: list[tuple[int, int, int]] | None,
    ) -> torch.futures.Future[torch.Tensor]:
        """Reduces a bucket of a source that is written in Python. All ranks pass the same buckets in the
        same order. slots: (parameter, offset, count) in the buffer; None if no parameter has a route."""

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
    """Its parameters in the order of its buckets, each with whether it expects sparse gradients."""

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
    """The bytes that one rank contributes for these on a route, without the reduced values."""

def remembers(route: str, /) -> bool:
    """Whether the route keeps memory (residuals, low-rank factors) from step to step."""

def reason_names() -> list[str]: ...
def topology_names(collective: str = "all_reduce") -> list[str]: ...
def parameter_key(name: str, /) -> int: ...
def shard_key(parameter: int, shard: int, /) -> int: ...

def bench_all_reduce(training: ProcessGroup, own: ProcessGroup, request: str, /) -> None:
    """One rank's part of `nf bench all_reduce`; nf writes the request. Rank 0 prints. No other code may
    use the second group, which must exist until all ranks have returned."""
