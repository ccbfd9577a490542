"""What the simulated workers learn: the next byte of a text, or the class of an image.

All data lies on the device, and a batch is cut there from the number of the step alone.
"""

import lzma
from pathlib import Path

import numpy as np
import torch

from neuron_fabric_lab.workloads.cifar import MARGIN
from neuron_fabric_lab.workloads.data import DataError, existing_folder, first_file
from neuron_fabric_lab.workloads.images import SIDE, read_images

from .networks import Shape

JUDGES = 512   # sequences of test data
PATCH = 4


class Bytes:
    """The bytes of wikitext2_SPLIT.txt, or wiki.SPLIT.tokens, or either with .xz."""

    def __init__(self, folder: Path, size: str, device: torch.device) -> None:
        self.shape, self.batch = {
            "full": (Shape(layers=8, width=512, heads=8, context=128, inputs=256, outputs=256, causal=True), 64),
            "tiny": (Shape(layers=1, width=32, heads=2, context=16, inputs=256, outputs=256, causal=True), 16)}[size]
        self.text, self.judges = (torch.from_numpy(self.read(folder, split)).to(device) for split in ("train", "valid"))
        self.reach = torch.arange(self.shape.context + 1, device=device)

    def read(self, folder: Path, split: str) -> np.ndarray:
        root = existing_folder(folder, "bytes", "text")
        path = first_file((root, root / "wikitext-2"), (f"wiki.{split}.tokens", f"wikitext2_{split}.txt"))
        if path is None:
            raise DataError(f"{root} has neither wikitext2_{split}.txt nor wiki.{split}.tokens, nor either with .xz")
        content = lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes()
        if len(content) < 10 * self.shape.context:
            raise DataError(f"{path} has {len(content)} bytes, too few")
        return np.frombuffer(content, dtype=np.uint8).copy()

    def draw(self, seed: int, steps: int) -> torch.Tensor:
        """All the batches of a run, a row each."""
        rng = np.random.default_rng([seed, steps])
        first = rng.integers(0, len(self.text) - self.shape.context, size=(steps, self.batch))
        return torch.from_numpy(first).to(self.text.device)

    def cut(self, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = self.text[row[:, None] + self.reach].long()
        return tokens[:, :-1], tokens[:, 1:]

    def held_back(self):
        first = torch.linspace(0, len(self.judges) - self.shape.context - 1, JUDGES).long().to(self.judges.device)
        for part in first.split(self.batch):
            tokens = self.judges[part[:, None] + self.reach].long()
            yield tokens[:, :-1], tokens[:, 1:]


class Pictures:
    """CIFAR-100 in patches, shifted and mirrored at random."""

    def __init__(self, folder: Path, size: str, device: torch.device) -> None:
        patches = (SIDE // PATCH) ** 2
        self.shape, self.batch = {
            "full": (Shape(layers=6, width=256, heads=4, context=patches, inputs=3 * PATCH**2, outputs=100,
                           causal=False), 256),
            "tiny": (Shape(layers=1, width=32, heads=2, context=patches, inputs=3 * PATCH**2, outputs=100,
                           causal=False), 16)}[size]
        train, test = (read_images(folder, "cifar100", 100, split) for split in ("train", "test"))
        self.pixels, self.labels = (torch.from_numpy(part).to(device) for part in (train.pixels, train.labels))
        self.test = [torch.from_numpy(part).to(device) for part in (test.pixels, test.labels)]
        self.reach = torch.arange(SIDE, device=device)

    def draw(self, seed: int, steps: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, steps])
        chosen = rng.integers(0, len(self.labels), size=(steps, self.batch))
        shift = rng.integers(-MARGIN, MARGIN + 1, size=(steps, self.batch, 2))
        mirrored = rng.integers(0, 2, size=(steps, self.batch))
        return torch.from_numpy(np.concatenate([chosen[..., None], shift, mirrored[..., None]], axis=2)).to(
            self.labels.device)

    def cut(self, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen, down, right, mirrored = (column[:, None] for column in row.unbind(1))
        rows = (self.reach + down).clamp(0, SIDE - 1)
        columns = (self.reach + right).clamp(0, SIDE - 1)
        columns = torch.where(mirrored == 1, columns.flip(1), columns)
        pixels = self.pixels[chosen[:, :, None], rows[:, :, None], columns[:, None]]
        return self.patches(pixels), self.labels[chosen[:, 0]]

    @staticmethod
    def patches(pixels: torch.Tensor) -> torch.Tensor:
        count, parts = len(pixels), SIDE // PATCH
        cut = pixels.view(count, parts, PATCH, parts, PATCH, 3).transpose(2, 3)
        return (cut.reshape(count, parts * parts, -1).float() - 128) / 64

    def held_back(self):
        for pixels, labels in zip(*(part.split(self.batch) for part in self.test), strict=True):
            yield self.patches(pixels), labels


TASKS = {"bytes": Bytes, "pictures": Pictures}
