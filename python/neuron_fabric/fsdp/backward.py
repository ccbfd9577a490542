"""The buckets of one backward pass of FSDP, which is one step of the runtime."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from neuron_fabric.session import Session

Slots = list[tuple[int, int, int]]  # parameter, offset, count


class Backward:
    def __init__(self, session: Session, states: Iterable[Any]) -> None:
        """states: the FSDPState of every module. The one whose module is the first in a backward pass calls
        its root callback at the end of the pass."""
        self._session = session  # keeps it alive as long as the model
        self._next = 0
        self._waiting: list[Callable[[], None]] = []
        for state in states:
            self._follow(state)

    def reduce(self, tensor: torch.Tensor, slots: Slots | None, *,
               is_mean: bool = False) -> torch.futures.Future:
        return self._run(tensor.view(-1), slots, is_mean, is_last=False)

    def at_end(self, finish: Callable[[], None]) -> None:
        """Calls it at the end of the backward pass."""
        self._waiting.append(finish)

    def finish(self) -> None:
        """Calls the functions of at_end()."""
        waiting, self._waiting = self._waiting, []
        for finish in waiting:
            finish()

    def _follow(self, state: Any) -> None:
        original = state._root_post_backward_final_callback

        def callback() -> None:
            original()
            if self._next > 0:
                self._end()

        state._root_post_backward_final_callback = callback

    def _end(self) -> None:
        """FSDP does not mark its last bucket, so an empty one ends the step."""
        last = self._run(torch.empty(0, device=self._session.parameters.tensors[0].device), [],
                         is_mean=False, is_last=True)
        self._next = 0
        self.finish()
        last.wait()

    def _run(self, buffer: torch.Tensor, slots: Slots | None, is_mean: bool,
             is_last: bool) -> torch.futures.Future:
        index, self._next = self._next, self._next + 1
        return self._session.runtime.run_values(buffer, index, is_last, is_mean=is_mean, slots=slots)
