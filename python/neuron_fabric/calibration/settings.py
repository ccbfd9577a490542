"""The settings of a calibration, validated before it starts."""

from dataclasses import asdict, dataclass
from typing import Any

import torch  # noqa: F401  loads the libraries that the extension links

from neuron_fabric import _C
from neuron_fabric.telemetry.records import DENSE_ROUTE

# The effect of biased routes, such as signs, accumulates over more steps than a branch has.
CANDIDATES = ("waterfill:3", "waterfill:4", "waterfill:5")


@dataclass(frozen=True)
class Target:
    """The maximum increase of the loss over dense training."""

    value: float
    is_share: bool = False  # of the dense loss

    @staticmethod
    def parse(text: "str | float | Target") -> "Target":
        """0.02, or "1%" of the dense loss."""
        if isinstance(text, Target):
            return text
        words = str(text).strip()
        is_share = words.endswith("%")
        try:
            value = float(words.removesuffix("%")) / (100 if is_share else 1)
        except ValueError:
            value = float("nan")
        if not 0 < value < 1e6:
            raise ValueError(f"a target must be an increase of the loss, such as 0.02 or 1%, not {text!r}")
        return Target(value, is_share)

    def most_harm(self, dense_loss: float) -> float:
        return self.value * abs(dense_loss) if self.is_share else self.value

    def __str__(self) -> str:
        return f"{100 * self.value:g}%" if self.is_share else f"{self.value:g}"


@dataclass(frozen=True)
class CalibrationSettings:
    """The settings of nf.Calibrator, which documents them."""

    target: Target = Target(0.02)
    most_bytes: float = 1.0
    candidates: tuple[str, ...] = CANDIDATES
    dense_steps: int = 100
    warm_up_steps: int = 10
    branch_steps: int = 60
    repeats: int = 3
    measurements: int = 3
    depth: int = 1
    smallest_parameter: int = 1024
    seed: int = 1

    def __post_init__(self) -> None:
        for route in self.candidates:
            # Raises ValueError, which names the nearest known word.
            _C.contribution_bytes(route, [], [], [])
        if not self.candidates:
            raise ValueError("there is no candidate to select from; give g_ternary, for example")
        if len(set(self.candidates)) < len(self.candidates):
            raise ValueError(f"a candidate is given twice: {', '.join(self.candidates)}")
        if DENSE_ROUTE in self.candidates:
            raise ValueError(f"candidates are compared with {DENSE_ROUTE}; omit it")
        if not 0 < self.most_bytes <= 1:
            raise ValueError(f"most_bytes must be a share of the dense bytes, not {self.most_bytes!r}")
        for name, minimum in (("dense_steps", 1), ("branch_steps", 4), ("repeats", 2),
                              ("measurements", 1), ("depth", 1), ("warm_up_steps", 0),
                              ("smallest_parameter", 0), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < minimum:
                raise ValueError(f"{name} must be a number of at least {minimum}, not {value!r}")

    def of_evidence(self) -> dict[str, Any]:
        """The conditions of the evidence: with other targets, it is still valid."""
        excluded = ("target", "most_bytes", "repeats")
        return {name: value for name, value in self.to_dict().items() if name not in excluded}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"target": str(self.target), "candidates": list(self.candidates)}
