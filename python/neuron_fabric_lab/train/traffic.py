"""The bytes that rank 0 sent, over all parts of a run that was stopped and continued."""

from dataclasses import asdict, dataclass, field
from typing import Any

from neuron_fabric.support import units

from .routes import PLAIN

_SUMMED = ("steps", "low_bit_steps", "bytes", "dense_bytes", "up_bytes", "fallbacks")


@dataclass
class Traffic:
    """`bytes` counts both directions, `up_bytes` only contributions. `dense_bytes` would have been sent
    at full precision, half of them as contributions."""

    steps: int = 0
    bytes: float = 0
    dense_bytes: float = 0
    up_bytes: float | None = 0
    regions: list[dict[str, Any]] = field(default_factory=list)
    fallbacks: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of_plain(cls, route: str, steps: int, dense_bytes: float) -> "Traffic":
        """Computed, since DDP does not count bytes."""
        dense = steps * dense_bytes
        return cls(steps=steps, bytes=PLAIN[route] * dense, dense_bytes=dense,
                   up_bytes=PLAIN[route] * dense / 2)

    @classmethod
    def of_summary(cls, summary: dict[str, Any]) -> "Traffic":
        return cls(steps=summary["steps"], bytes=summary["bytes"], dense_bytes=summary["dense_bytes"],
                   up_bytes=summary.get("up_bytes"), regions=summary["regions"],
                   fallbacks=summary["fallbacks"])

    def after(self, before: "Traffic") -> "Traffic":
        """The sum of both."""
        earlier = {region["name"]: region for region in before.regions}
        regions = []
        for region in self.regions:
            total = dict(region)
            if (part := earlier.get(region["name"])) is not None:
                for key in _SUMMED:
                    total[key] = _plus(region.get(key), part.get(key))
                total["bytes_ratio"] = units.ratio(total["bytes"], total["dense_bytes"])
            regions.append(total)
        return Traffic(self.steps + before.steps, self.bytes + before.bytes,
                       self.dense_bytes + before.dense_bytes, _plus(self.up_bytes, before.up_bytes),
                       regions or before.regions, before.fallbacks + self.fallbacks)

    @property
    def bytes_ratio(self) -> float | None:
        return units.ratio(self.bytes, self.dense_bytes)

    @property
    def bytes_up_ratio(self) -> float | None:
        return None if self.up_bytes is None else units.ratio(self.up_bytes, self.dense_bytes / 2)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
