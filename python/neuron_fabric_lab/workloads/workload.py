"""The interface of a workload: a model and its data."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional

from .sampling import Shuffle

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Evaluation:
    accuracy: float  # a fraction
    loss: float


class Workload(ABC):
    """A model, its training data and its test data.

    Everything is a function of its arguments: a seed gives the same weights on every rank, and
    (seed, step, rank, ranks) the same batch in every run and on every device. So runs differ only in
    how they communicate gradients, and a resumed run continues where it stopped.
    """

    name: ClassVar[str]
    sizes: ClassVar[dict[str, Any]]
    default_size: ClassVar[str]
    batch_size: int          # per rank
    steps: ClassVar[int]     # enough to learn something
    warm_up: ClassVar[int] = 0
    examples: int = 0            # per epoch; 0 if the data has no epochs
    has_images: ClassVar[bool] = False
    takes_data: ClassVar[bool] = False  # from a folder, the second argument of the constructor

    def __init__(self, size: str | None = None) -> None:
        self.check_size(size)
        self.size_name = size or self.default_size
        self.size = self.sizes[self.size_name]
        self._order: Shuffle | None = None

    @classmethod
    def check_size(cls, size: str | None) -> None:
        """Raises ValueError if there is no such size. None is the default."""
        if size is not None and size not in cls.sizes:
            raise ValueError(f"{cls.name} has no size {size}; it has {', '.join(cls.sizes)}")

    def to(self, device: torch.device) -> "Workload":
        """Moves data to the device if possible, and makes batches there from now on."""
        return self

    def make_model(self, seed: int) -> nn.Module:
        """With weights that depend only on the seed; does not change the caller's generator."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build()

    def batches(self, rank: int, ranks: int, seed: int, start: int = 0) -> Iterator[Batch]:
        """A rank's batches from step `start` on, endless."""
        step = start
        while True:
            yield self.draw(seed, step, rank, ranks)
            step += 1

    def order(self, seed: int) -> Shuffle:
        """The order of examples in a run with this seed."""
        if self._order is None or self._order.seed != seed:
            self._order = Shuffle(self.examples, seed)
        return self._order

    def rate(self, step: int, steps: int) -> float:
        """Factor of the learning rate: up over `warm_up` steps, or a quarter of a short run, then down
        along half a cosine."""
        warm_up = min(self.warm_up, steps // 4)
        if step < warm_up:
            return (step + 1) / warm_up
        done = (step - warm_up) / max(1, steps - warm_up)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        inputs, targets = self.on_device_of(model, batch)
        return functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> Evaluation:
        """Over all test data. Does not change the model's mode."""
        was_training = model.training
        model.eval()
        correct = loss = torch.zeros((), dtype=torch.float64)
        count = 0
        for batch in self.held_back():
            inputs, targets = self.on_device_of(model, batch)
            scores, targets = model(inputs).flatten(0, -2).float(), targets.flatten()
            loss = loss + functional.cross_entropy(scores, targets, reduction="sum").double()
            correct = correct + (scores.argmax(-1) == targets).sum()
            count += len(targets)
        model.train(was_training)
        return Evaluation(accuracy=correct.item() / count, loss=loss.item() / count)

    @staticmethod
    def on_device_of(model: nn.Module, batch: Batch) -> Batch:
        device = next(model.parameters()).device
        return batch[0].to(device), batch[1].to(device)

    # To be implemented by workloads.

    description: str

    @abstractmethod
    def build(self) -> nn.Module:
        """The model, with weights from PyTorch's generator."""

    @abstractmethod
    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer of the workload."""

    @abstractmethod
    def draw(self, seed: int, step: int, rank: int, ranks: int) -> Batch:
        """One rank's batch of one step."""

    @abstractmethod
    def held_back(self) -> Iterator[Batch]:
        """The test data, in parts that fit in memory."""
