"""Scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, and a small convolutional network."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from .data import DataError
from .workload import Batch, Workload

CLASSES = 10
HELD_BACK = 5  # every fifth image is test data


def convolution(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(8, outputs), nn.ReLU()]


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *convolution(1, width), *convolution(width, 2 * width), nn.MaxPool2d(2),
            *convolution(2 * width, 4 * width), nn.MaxPool2d(2), nn.Flatten())
        self.hidden = nn.Linear(16 * width, 16 * width)
        self.head = nn.Linear(16 * width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.hidden(self.features(images))))


class Digits(Workload):
    name = "digits"
    sizes = {"tiny": 8, "small": 32}  # channels of the first layer
    default_size = "small"
    batch_size = 32
    steps = 200
    warm_up = 10

    def __init__(self, size: str | None = None) -> None:
        super().__init__(size)
        try:
            from sklearn.datasets import load_digits
        except ModuleNotFoundError as error:
            raise DataError("digits needs scikit-learn: pip install scikit-learn") from error
        data = load_digits()
        images = torch.from_numpy((data.images / 8 - 1).astype(np.float32)).unsqueeze(1)
        labels = torch.from_numpy(data.target.astype(np.int64))
        judges = torch.arange(len(labels)) % HELD_BACK == HELD_BACK - 1
        self.images, self.labels = images[~judges], labels[~judges]
        self.judges = images[judges], labels[judges]
        self.examples = len(self.labels)
        self.description = (f"{len(self.labels):,} training digits of scikit-learn, "
                            f"{len(self.judges[1]):,} test digits")

    def build(self) -> nn.Module:
        return Model(self.size)

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)

    def to(self, device: torch.device) -> "Digits":
        self.images, self.labels = self.images.to(device), self.labels.to(device)
        return super().to(device)

    def draw(self, seed: int, step: int, rank: int, ranks: int) -> Batch:
        chosen = torch.from_numpy(self.order(seed).batch(step, rank, ranks, self.batch_size))
        return self.images[chosen], self.labels[chosen]

    def held_back(self) -> Iterator[Batch]:
        yield self.judges
