"""Training jobs: `digits` and `gpt` from data that every machine has, `cifar100` and `cifar10` from a
folder that the user names."""

from pathlib import Path

from .cifar import Cifar, Cifar10, Cifar100
from .digits import Digits
from .gpt import Gpt
from .images import DataError
from .workload import Evaluation, Workload

WORKLOADS: dict[str, type[Workload]] = {
    kind.name: kind for kind in (Digits, Gpt, Cifar100, Cifar10)}


def make_workload(name: str, size: str | None = None, data: str | Path | None = None) -> Workload:
    """Fails with ValueError on an unknown name or size, and with DataError where data is missing."""
    if name not in WORKLOADS:
        raise ValueError(f"there is no workload {name}; there are {', '.join(WORKLOADS)}")
    kind = WORKLOADS[name]
    return kind(size, data) if issubclass(kind, Cifar) else kind(size)


__all__ = ["WORKLOADS", "DataError", "Evaluation", "Workload", "make_workload"]
