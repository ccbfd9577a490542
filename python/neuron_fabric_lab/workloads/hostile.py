"""A workload built to break static low bits, after a beginning that invites them.

For EASY_STEPS steps all inputs are of one size, all classes are as frequent as each other and half of
the labels are drawn by lot, so every value of a gradient is about as large as its neighbours: one
bit of each, its sign, and one scale for a block lose some 0.45 of the energy, and training bears it. A
profile that is calibrated on these steps takes `g_binary` everywhere for safe.

Then the task shows its face. Sizes of inputs are log-normal over several orders of magnitude, and
classes are long-tailed. Both spread the values inside a block of `g_binary`:

- values are stepped by their block's mean magnitude whatever their own, so those that should hardly
  move are thrown about by as much as the large ones are held back;
- in most batches a rare class is only pushed down, a little by everybody, and a few examples that push it
  up strongly make up for it. Signs count heads, not strength: its weights sink until it is forgotten.

The route's error rises above 0.8 at once, which a monitor sees. All classes are as frequent in the data
that judges, so a model that has forgotten the rare ones scores low.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from .sampling import batch_generator
from .workload import Batch, Workload

CLASSES = 32
INPUTS = 256
NOISE = 1.5        # of an input, beside differences between classes of 1
SPREAD = 2.0       # deviation of the logarithm of inputs' sizes
TAIL = 1.2         # the k-th class comes k^-TAIL times as often as the first
EASY_STEPS = 120
LOTS = 0.5         # of the labels in easy steps
JUDGES = 4000
WORLD = 7          # the seed of what all runs have in common


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
                            f"{JUDGES:,} examples to judge by")

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
        told = np.where(rng.random(self.batch_size) < LOTS, lots, truth)
        return self._batch(rng, truth, told, np.ones(INPUTS))

    def held_back(self) -> Iterator[Batch]:
        yield self.judges

    def _batch(self, rng: np.random.Generator, truth: np.ndarray, told: np.ndarray,
               scales: np.ndarray) -> Batch:
        inputs = (self.centres[truth] + NOISE * rng.normal(size=(len(truth), INPUTS))) * scales
        return torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(told)
