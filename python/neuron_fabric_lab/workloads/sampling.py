"""The order of examples: a function of numbers only, so the same in every run."""

import numpy as np

_EPOCH, _BATCH = 1, 2  # separate random streams


def batch_generator(seed: int, step: int, rank: int) -> np.random.Generator:
    """The generator of all random draws in one rank's batch."""
    return np.random.default_rng([seed, step, rank, _BATCH])


class Shuffle:
    """An endless sequence of examples: every epoch has each of them once, in its own order."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.seed = seed
        self._orders: dict[int, np.ndarray] = {}

    def take(self, first: int, count: int) -> np.ndarray:
        """The examples at positions first to first + count of the sequence."""
        parts = []
        while count > 0:
            epoch, place = divmod(first, self.count)
            part = self._order(epoch)[place : place + count]
            parts.append(part)
            first, count = first + len(part), count - len(part)
        return np.concatenate(parts)

    def batch(self, step: int, rank: int, ranks: int, size: int) -> np.ndarray:
        """A rank's part of the examples of a step."""
        return self.take((step * ranks + rank) * size, size)

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            self._orders = {}  # steps rarely go back
            generator = np.random.default_rng([self.seed, epoch, 0, _EPOCH])
            self._orders[epoch] = generator.permutation(self.count)
        return self._orders[epoch]
