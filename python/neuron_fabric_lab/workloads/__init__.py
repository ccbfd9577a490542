"""Training jobs: `digits`, `gpt` and `hostile` from data that every machine has, `cifar100`, `cifar10` and
`sst2` from a folder that the user names."""

from pathlib import Path

from .cifar import Cifar10, Cifar100
from .data import DataError
from .digits import Digits
from .gpt import Gpt
from .hostile import Hostile
from .sst2 import Sst2
from .workload import Evaluation, Workload

WORKLOADS: dict[str, type[Workload]] = {
    kind.name: kind for kind in (Digits, Gpt, Hostile, Cifar100, Cifar10, Sst2)}


def make_workload(name: str, size: str | None = None, data: str | Path | None = None,
                  batch: int | None = None) -> Workload:
    """batch: examples a rank and step (the workload's). Fails with ValueError on an unknown name or size, and
    with DataError where data is missing."""
    if name not in WORKLOADS:
        raise ValueError(f"there is no workload {name}; there are {', '.join(WORKLOADS)}")
    kind = WORKLOADS[name]
    workload = kind(size, data) if kind.takes_data else kind(size)
    workload.batch_size = batch or workload.batch_size
    return workload


__all__ = ["WORKLOADS", "DataError", "Evaluation", "Workload", "make_workload"]
