"""A workload that breaks static low bits, after a start that suggests them.

For EASY_STEPS steps all inputs have one magnitude, all classes have the same frequency and half of the
labels are random, so all values of a gradient have about the same magnitude: one bit of each, its sign,
and one scale per block lose about 0.45 of the energy, and training tolerates it. A profile that is
calibrated on these steps considers `g_binary` safe everywhere.

Then the task becomes hard. Magnitudes of inputs are log-normal over several orders of magnitude, and
classes are long-tailed. Both spread the values inside a block of `g_binary`:

- values are quantised to their block's mean magnitude, so small values are perturbed by as much as
  large ones are reduced;
- in most batches a rare class is only pushed down, slightly by every example, and a few examples that
  push it up strongly compensate. Signs ignore magnitudes: its weights decrease until it is forgotten.

The error of the route exceeds 0.8 at once, which the monitor detects. All classes have the same frequency
in the test data, so a model that has forgotten the rare ones scores low.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from .sampling import batch_generator
from .workload import Batch, Workload

CLASSES = 32
INPUTS = 256
NOISE = 1.5        # of an input; classes differ by 1
SPREAD = 2.0       # standard deviation of the logarithm of inputs' magnitudes
TAIL = 1.2         # the k-th class is k^-TAIL times as frequent as the first
EASY_STEPS = 120
LOTS = 0.5         # share of random labels in easy steps
JUDGES = 4000
WORLD = 7          # the seed of the task, the same in all runs


class Hostile(Workload):
    name = "hostile"
    sizes = {"tiny": 64}  # width of the hidden layer
    default_size = "tiny"
    batch_size = 32
    steps = 400

    def __init__(self, size: str | None = None) -> None:
        super().__init__(size)
        world = np.random.default_rng(WORLD)
        self.centres = world.normal(size=(CLASSES, INPUTS))
        scales = np.exp(SPREAD * world.normal(size=INPUTS))
        self.scales = scales / np.sqrt(np.mean(scales**2))
        frequencies = (1.0 + np.arange(CLASSES)) ** -TAIL
        self.frequencies = frequencies / frequencies.sum()
        labels = np.arange(JUDGES) % CLASSES
        self.judges = self._batch(world, labels, labels, self.scales)
        self.description = (f"{CLASSES} classes, {EASY_STEPS} easy steps and then hard ones, "
                            f"{JUDGES:,} test examples")

    def build(self) -> nn.Module:
        return nn.Sequential(nn.Linear(INPUTS, self.size), nn.Tanh(), nn.Linear(self.size, CLASSES))

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def draw(self, seed: int, step: int, rank: int, ranks: int) -> Batch:
        rng = batch_generator(seed, step, rank)
        if step >= EASY_STEPS:
            labels = rng.choice(CLASSES, size=self.batch_size, p=self.frequencies)
            return self._batch(rng, labels, labels, self.scales)
        truth, lots = rng.integers(CLASSES, size=(2, self.batch_size))
        labels = np.where(rng.random(self.batch_size) < LOTS, lots, truth)
        return self._batch(rng, truth, labels, np.ones(INPUTS))

    def held_back(self) -> Iterator[Batch]:
        yield self.judges

    def _batch(self, rng: np.random.Generator, truth: np.ndarray, labels: np.ndarray,
               scales: np.ndarray) -> Batch:
        inputs = (self.centres[truth] + NOISE * rng.normal(size=(len(truth), INPUTS))) * scales
        return torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(labels)
