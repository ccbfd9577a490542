"""Training jobs from data that every machine has: `digits` and `gpt`."""

from .digits import Digits
from .gpt import Gpt
from .workload import Evaluation, Workload

WORKLOADS: dict[str, type[Workload]] = {kind.name: kind for kind in (Digits, Gpt)}


def make_workload(name: str, size: str | None = None) -> Workload:
    """Fails with ValueError on an unknown name or size."""
    if name not in WORKLOADS:
        raise ValueError(f"there is no workload {name}; there are {', '.join(WORKLOADS)}")
    return WORKLOADS[name](size)


__all__ = ["WORKLOADS", "Evaluation", "Workload", "make_workload"]
