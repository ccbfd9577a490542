"""The accuracy or loss that a model should reach, and the time to reach it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from neuron_fabric.support import units

Merit = Literal["accuracy", "loss"]


@dataclass(frozen=True)
class Target:
    """A minimum accuracy, or a maximum loss."""

    merit: Merit
    value: float

    def __str__(self) -> str:
        if self.merit == "accuracy":
            return f"an accuracy of {100 * self.value:.2f} %"
        return f"a loss of {units.number(self.value)}"

    def is_met(self, evaluation: dict[str, Any]) -> bool:
        found = evaluation[self.merit]
        return found >= self.value if self.merit == "accuracy" else found <= self.value


def to_target(target: Target | None, curve: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The training up to the first evaluation that reached it; None if there is none."""
    met = next((point for point in curve if target is not None and target.is_met(point)), {})
    return {"target": None if target is None else {target.merit: target.value},
            "seconds_to_target": met.get("seconds"), "steps_to_target": met.get("step"),
            "bytes_to_target": met.get("bytes")}
