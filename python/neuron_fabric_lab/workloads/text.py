"""Language models: predict each token from the ones before it."""

import numpy as np
import torch

from .sampling import batch_generator
from .workload import Batch, Workload


def sequences(text: torch.Tensor, first: np.ndarray, context: int) -> Batch:
    """Sequences from the given positions, and the token after each of their tokens."""
    places = torch.from_numpy(first).to(text.device, non_blocking=True)
    taken = text[places[:, None] + torch.arange(context + 1, device=text.device)].long()
    return taken[:, :-1], taken[:, 1:]


class Text(Workload):
    """A size has a `context`, the tokens of a sequence. Subclasses set both texts in their constructor."""

    text: torch.Tensor    # training tokens
    judges: torch.Tensor  # test tokens

    def to(self, device: torch.device) -> "Text":
        self.text, self.judges = self.text.to(device), self.judges.to(device)
        return super().to(device)

    def draw(self, seed: int, step: int, rank: int, ranks: int) -> Batch:
        places = len(self.text) - self.size.context
        rng = batch_generator(seed, step, rank)
        return sequences(self.text, rng.integers(places, size=self.batch_size), self.size.context)
