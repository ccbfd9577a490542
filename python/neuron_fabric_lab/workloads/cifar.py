"""CIFAR-100 and CIFAR-10 with a ResNet-18 for images of 32 x 32 pixels."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from .images import SIDE, Images, read_images
from .sampling import batch_generator
from .workload import Batch, Workload

MARGIN = 4  # pixels by which crops are shifted
JUDGES_AT_ONCE = 500


class Block(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        nn.init.zeros_(self.norm2.weight)  # starts as the residual connection only
        self.around = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                        nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.around(x))


@dataclass(frozen=True)
class Size:
    width: int       # channels of the stem
    hidden: int = 0  # the width of a hidden layer in the classifier


class ResNet18(nn.Module):
    """A stem of one 3 x 3 convolution; 11.2 million parameters at width 64."""

    def __init__(self, classes: int, size: Size) -> None:
        super().__init__()
        width = size.width
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False),
                                  nn.BatchNorm2d(width), nn.ReLU())
        blocks, inputs = [], width
        for stage in range(4):
            outputs = width << stage
            blocks += [Block(inputs, outputs, 1 if stage == 0 else 2), Block(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inputs, classes) if size.hidden == 0 else nn.Sequential(
            nn.Linear(inputs, size.hidden), nn.ReLU(), nn.Linear(size.hidden, classes))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.blocks(self.stem(images)).mean((2, 3)))


class Pixels:
    """Images on the model's device, where batches are cut from them."""

    def __init__(self, images: Images, mean: np.ndarray, deviation: np.ndarray) -> None:
        self.pixels = torch.from_numpy(np.ascontiguousarray(images.pixels))
        self.labels = torch.from_numpy(images.labels)
        self.mean, self.scale = torch.from_numpy(mean), torch.from_numpy(1 / deviation)

    def to(self, device: torch.device) -> None:
        self.pixels, self.labels = self.pixels.to(device), self.labels.to(device)
        self.mean, self.scale = self.mean.to(device), self.scale.to(device)

    def cut(self, chosen: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> Batch:
        """The pixels of each selected image at its rows and columns."""
        # One short copy to the device, without synchronisation.
        places = np.concatenate([chosen[:, None], rows, columns], axis=1)
        places = torch.from_numpy(places).to(self.pixels.device, non_blocking=True)
        chosen, rows, columns = places.split([1, SIDE, SIDE], dim=1)
        taken = self.pixels[chosen[:, :, None], rows[:, :, None], columns[:, None]]
        return self._scaled(taken), self.labels[chosen.flatten()]

    def part(self, part: slice) -> Batch:
        return self._scaled(self.pixels[part]), self.labels[part]

    def _scaled(self, pixels: torch.Tensor) -> torch.Tensor:
        """Channels first in shape; channels last in memory on a device, which is faster there."""
        scaled = ((pixels - self.mean) * self.scale).permute(0, 3, 1, 2)
        return scaled.contiguous() if pixels.device.type == "cpu" else scaled


def mirrored(places: np.ndarray) -> np.ndarray:
    """Positions beyond a border, reflected at it."""
    return SIDE - 1 - np.abs(SIDE - 1 - np.abs(places))


class Cifar(Workload):
    classes: ClassVar[int]
    # `head`: like older networks, a third of the parameters are in the classifier.
    sizes = {"tiny": Size(8), "small": Size(16), "full": Size(64), "head": Size(64, hidden=8192)}
    default_size = "full"
    batch_size = 128
    steps = 1200  # 12 epochs of 50,000 images with 4 ranks
    warm_up = 100
    has_images = True
    takes_data = True

    def __init__(self, size: str | None = None, data: str | Path | None = None) -> None:
        super().__init__(size)
        train = read_images(data, self.name, self.classes, "train")
        test = read_images(data, self.name, self.classes, "test")
        sample = train.pixels.reshape(-1, 3)[:: 97].astype(np.float32)
        self.mean, self.deviation = sample.mean(0), sample.std(0) + 1e-3
        self.train, self.test = (Pixels(images, self.mean, self.deviation) for images in (train, test))
        self.examples = len(train.labels)
        self.description = (f"{len(train.labels):,} training images, "
                            f"{len(test.labels):,} test images")

    def build(self) -> nn.Module:
        return ResNet18(self.classes, self.size)

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        rate = min(0.8, 0.05 * self.size.width)  # the tiny model diverges at higher rates
        if self.size.hidden > 0:
            rate /= 4
        return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4,
                               nesterov=True)

    def to(self, device: torch.device) -> "Cifar":
        for images in (self.train, self.test):
            images.to(device)
        return super().to(device)

    def draw(self, seed: int, step: int, rank: int, ranks: int) -> Batch:
        """Shifted by up to MARGIN pixels, and half of them mirrored."""
        chosen = self.order(seed).batch(step, rank, ranks, self.batch_size)
        rng = batch_generator(seed, step, rank)
        corners = rng.integers(-MARGIN, MARGIN + 1, size=(2, self.batch_size, 1))
        rows, columns = mirrored(corners + np.arange(SIDE))
        flips = rng.random(self.batch_size) < 0.5
        columns[flips] = columns[flips, ::-1]
        return self.train.cut(chosen, rows, columns)

    def held_back(self) -> Iterator[Batch]:
        for first in range(0, len(self.test.labels), JUDGES_AT_ONCE):
            yield self.test.part(slice(first, first + JUDGES_AT_ONCE))


class Cifar100(Cifar):
    name = "cifar100"
    classes = 100


class Cifar10(Cifar):
    name = "cifar10"
    classes = 10
