"""The state that a branch changes, saved so that the next branch starts from the same bits."""

import copy
import random
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch


class Stateful(Protocol):
    """A model, an optimizer, a GradScaler: an object with a state that can be saved and loaded."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> object: ...


class Snapshot:
    """The states of parts of a training job and of all random generators, on this rank."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    @staticmethod
    def take(parts: Sequence[Stateful]) -> "Snapshot":
        return Snapshot(copy.deepcopy(
            {"parts": [part.state_dict() for part in parts], "generators": _generators()}))

    def restore(self, parts: Sequence[Stateful]) -> None:
        """Does not change the snapshot: optimizers keep the tensors that they load, so they get copies."""
        state = copy.deepcopy(self.state)
        for part, saved in zip(parts, state["parts"], strict=True):
            part.load_state_dict(saved)
        _set_generators(state["generators"])


def _generators() -> dict[str, Any]:
    """Tensors, numbers and text only, so that loading executes no code."""
    kind, keys, *rest = np.random.get_state()
    version, numbers, gauss = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
        "numpy": [kind, torch.from_numpy(keys.astype(np.int64)), *rest],
        "python": [version, list(numbers), gauss],
    }


def _set_generators(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"].cpu())
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.cpu().numpy().astype(np.uint32), *rest))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
