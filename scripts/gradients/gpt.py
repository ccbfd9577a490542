"""The GPT of `nf train gpt` in other sizes, with a learning rate independent of the run's length."""

import torch
from neuron_fabric_lab.workloads.gpt import Model, Size, library_text
from neuron_fabric_lab.workloads.text import sequences


class Gpt:
    """The workload of Training for the GPT."""

    name = "gpt"
    sizes = {"tiny": Size(layers=2, width=64, heads=2, context=64),
             "small": Size(layers=4, width=256, heads=4, context=128),
             "25m": Size(layers=8, width=512, heads=8, context=256)}
    default_size = "25m"
    default_steps = [50, 500, 1500]
    default_batch = 8
    takes_data = False
    warm_up = 100

    def __init__(self, size, data, seed):
        self.size = self.sizes[size]
        self.training, self.held_back = map(torch.from_numpy, library_text())
        self.description = (f"{len(self.training):,} bytes of the standard library for training, "
                            f"{len(self.held_back):,} for validation")

    def make_model(self):
        return Model(self.size)

    def make_optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)

    # Constant after the warm-up, so that the gradient of a step does not depend on the run's length.
    def rate(self, step):
        return min(1, (step + 1) / self.warm_up)

    def batch(self, rng, count):
        return self.sequences(self.training, rng, count)

    def validation(self, rng, count):
        return self.sequences(self.held_back, rng, count)

    def sequences(self, text, rng, count):
        first = rng.integers(len(text) - self.size.context, size=count)
        return sequences(text, first, self.size.context)
