"""The buckets of one backward pass of FSDP, which is one step of the runtime."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch

from neuron_fabric.session import Session

Slots = list[tuple[int, int, int]]  # parameter, offset, count


# Reductions that overlap with backward. Each holds the unsharded gradients of its parameter group.
IN_FLIGHT = 3


class Backward:
    def __init__(self, session: Session, model: torch.nn.Module, states: Iterable[Any]) -> None:
        """states: the FSDPState of every module. The one whose module is the first in a backward pass calls
        its root callback at the end of the pass."""
        self.has_unrouted = False  # whether a bucket of the last pass had no slots
        self._session = session  # keeps it alive as long as the model
        self._next = 0
        self._waiting: deque[Callable[[], None]] = deque()
        device = session.parameters.tensors[0].device
        self._beside = torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None
        self._done: deque[torch.cuda.Event] = deque()  # of the last calls of beside()
        for state in states:
            self._follow(state)
        model.register_forward_pre_hook(self._reject_incomplete_pass)

    def reduce(self, tensor: torch.Tensor, slots: Slots | None, *,
               is_mean: bool = False) -> torch.futures.Future:
        return self._run(tensor.view(-1), slots, is_mean, is_last=False)

    def at_end(self, finish: Callable[[], None]) -> None:
        """Calls it at the end of the backward pass, or earlier if IN_FLIGHT others follow."""
        self._waiting.append(finish)
        if len(self._waiting) > IN_FLIGHT:
            self._waiting.popleft()()

    def beside(self, finish: Callable[[], None], *tensors: torch.Tensor) -> None:
        """Calls it on a stream of its own, for which only the end of the backward pass waits, or an earlier call if
        IN_FLIGHT others follow.

        tensors: those that `finish` uses.
        """
        with self.on_stream_beside():
            finish()
            self._done.append(torch.cuda.current_stream().record_event())
        for tensor in tensors:
            tensor.record_stream(self._beside)
        if len(self._done) > IN_FLIGHT:
            torch.cuda.current_stream().wait_event(self._done.popleft())

    def on_stream_beside(self) -> contextlib.AbstractContextManager:
        """Work in this context follows what beside() was given so far."""
        return torch.cuda.stream(self._beside)

    def finish(self) -> None:
        """Calls the functions of at_end(). The current stream waits for those of beside()."""
        while self._waiting:
            self._waiting.popleft()()
        if self._done:
            torch.cuda.current_stream().wait_event(self._done[-1])
            self._done.clear()

    def _follow(self, state: Any) -> None:
        original = state._root_post_backward_final_callback

        def callback() -> None:
            original()
            if self._next > 0:
                self._end()

        state._root_post_backward_final_callback = callback

    def _reject_incomplete_pass(self, _module: object, _inputs: object) -> None:
        """Raises RuntimeError in a forward pass after a backward pass that did not reach its end. FSDP would not
        call its root callback again."""
        is_in_backward = torch._C._current_graph_task_id() >= 0  # recomputes activations
        if self._next > 0 and torch.is_grad_enabled() and not is_in_backward:
            raise RuntimeError("neuron_fabric: the last backward pass ended with an exception, and its gradients are "
                               "incomplete: restart from a checkpoint")

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
        self.has_unrouted = slots is None or (self.has_unrouted and index > 0)
        return self._session.runtime.run_values(buffer, index, is_last, is_mean=is_mean, slots=slots)
