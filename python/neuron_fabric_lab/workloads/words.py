"""Word-level text from a user's folder: WikiText-2, compressed or not."""

import collections
from pathlib import Path

import numpy as np

from .data import DataError, existing_folder, first_file, read_lines

UNKNOWN, END = "<unk>", "<eos>"


def read_words(folder: str | Path | None, split: str) -> list[str]:
    """The words of a split, train or valid, with END after each line. The folder, or wikitext-2 in it, has
    wiki.SPLIT.tokens or wikitext2_SPLIT.txt, or either with .xz: words between spaces."""
    root = existing_folder(folder, "llama", "text")
    path = first_file((root, root / "wikitext-2"), (f"wiki.{split}.tokens", f"wikitext2_{split}.txt"))
    if path:
        return _read(path)
    raise DataError(f"{root} has no {split} text of WikiText-2: neither wiki.{split}.tokens nor "
                    f"wikitext2_{split}.txt, nor either with .xz")


def _read(path: Path) -> list[str]:
    words = [word for line in read_lines(path) for word in [*line.split(), END]]
    if not words:
        raise DataError(f"{path} has no words")
    return words


class Vocabulary:
    """The most frequent words, in the order of their frequency; the others count as UNKNOWN."""

    def __init__(self, words: list[str], size: int) -> None:
        counts = collections.Counter(words)
        del counts[UNKNOWN]
        known = sorted(counts, key=lambda word: (-counts[word], word))[: size - 1]
        self.numbers = {word: number for number, word in enumerate([UNKNOWN, *known])}

    def __len__(self) -> int:
        return len(self.numbers)

    def encode(self, words: list[str]) -> np.ndarray:
        return np.array([self.numbers.get(word, 0) for word in words], dtype=np.int32)
