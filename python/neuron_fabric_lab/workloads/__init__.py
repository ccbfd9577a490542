"""Training jobs: `digits`, `gpt` and `hostile` with data that every machine has, `cifar100`, `cifar10`, `sst2`
and `llama` with data in a folder that the user gives."""

from pathlib import Path

from .cifar import Cifar10, Cifar100
from .data import DataError
from .digits import Digits
from .gpt import Gpt
from .hostile import Hostile
from .llama import Llama
from .sst2 import Sst2
from .workload import Evaluation, Workload

WORKLOADS: dict[str, type[Workload]] = {
    kind.name: kind for kind in (Digits, Gpt, Hostile, Cifar100, Cifar10, Sst2, Llama)}


def make_workload(name: str, size: str | None = None, data: str | Path | None = None,
                  batch: int | None = None) -> Workload:
    """batch: examples per rank and step (the workload's). Raises ValueError if the name or size is unknown,
    and DataError if data is missing."""
    if name not in WORKLOADS:
        raise ValueError(f"unknown workload {name}; known are {', '.join(WORKLOADS)}")
    kind = WORKLOADS[name]
    workload = kind(size, data) if kind.takes_data else kind(size)
    workload.batch_size = batch or workload.batch_size
    return workload


__all__ = ["WORKLOADS", "DataError", "Evaluation", "Workload", "make_workload"]
