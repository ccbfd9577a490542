"""CIFAR-100 and CIFAR-10 with a ResNet-18 for images of 32 x 32 pixels."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from .images import SIDE, Images, read_images
from .workload import Batch, Workload

MARGIN = 4  # pixels of mirrored border, for crops
JUDGES_AT_ONCE = 500


class Block(nn.Module):
    """Two convolutions beside a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        nn.init.zeros_(self.norm2.weight)  # at first only the way around
        self.around = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                        nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.around(x))


class ResNet18(nn.Module):
    """With a stem of one 3 x 3 convolution; of width 64 it has 11.2 million parameters."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False),
                                  nn.BatchNorm2d(width), nn.ReLU())
        blocks, inputs = [], width
        for stage in range(4):
            outputs = width << stage
            blocks += [Block(inputs, outputs, 1 if stage == 0 else 2), Block(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.blocks(self.stem(images)).mean((2, 3)))


class Cifar(Workload):
    classes: ClassVar[int]
    sizes = {"tiny": 8, "small": 16, "full": 64}  # channels of the stem
    default_size = "full"
    batch_size = 128
    steps = 1200  # 12 epochs of 50,000 images with 4 ranks
    warm_up = 25

    def __init__(self, size: str | None = None, data: str | Path | None = None) -> None:
        super().__init__(size)
        self.train = read_images(data, self.name, self.classes, "train")
        self.test = read_images(data, self.name, self.classes, "test")
        scaled = self.train.pixels.reshape(-1, 3)[:: 97].astype(np.float32) / 255
        self.mean, self.deviation = scaled.mean(0), scaled.std(0) + 1e-6
        self.description = (f"{len(self.train.labels):,} images to learn from, "
                            f"{len(self.test.labels):,} to judge by")

    def build(self) -> nn.Module:
        return ResNet18(self.classes, self.size)

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4,
                               nesterov=True)

    def draw(self, rng: np.random.Generator, ranks: int) -> list[Batch]:
        chosen = rng.integers(len(self.train.labels), size=(ranks, self.batch_size))
        flips = rng.random((ranks, self.batch_size)) < 0.5
        corners = rng.integers(2 * MARGIN + 1, size=(ranks, self.batch_size, 2))
        return [self.cropped(*row) for row in zip(chosen, flips, corners, strict=True)]

    def cropped(self, chosen: np.ndarray, flips: np.ndarray, corners: np.ndarray) -> Batch:
        """Shifted by up to MARGIN pixels, and every other one mirrored."""
        pixels = self.train.pixels[chosen]
        pixels[flips] = pixels[flips, :, ::-1]
        border = ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0))
        padded = np.pad(pixels, border, mode="reflect")
        rows = corners[:, :1] + np.arange(SIDE)
        columns = corners[:, 1:] + np.arange(SIDE)
        pixels = padded[np.arange(len(chosen))[:, None, None], rows[:, :, None], columns[:, None]]
        return self.batch(Images(pixels, self.train.labels[chosen]))

    def held_back(self) -> Iterator[Batch]:
        for first in range(0, len(self.test.labels), JUDGES_AT_ONCE):
            part = slice(first, first + JUDGES_AT_ONCE)
            yield self.batch(Images(self.test.pixels[part], self.test.labels[part]))

    def batch(self, images: Images) -> Batch:
        scaled = (images.pixels.astype(np.float32) / 255 - self.mean) / self.deviation
        return (torch.from_numpy(scaled.transpose(0, 3, 1, 2).copy()),
                torch.from_numpy(images.labels))


class Cifar100(Cifar):
    name = "cifar100"
    classes = 100


class Cifar10(Cifar):
    name = "cifar10"
    classes = 10
