"""Synthetic sentences in a folder in the format of SST-2: one word decides the label."""

from pathlib import Path

import numpy as np

FILLERS = ["the", "film", "is", "a", "story", "of", "two", "people", ",", "Café"]


def write_tsv(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    for split, count in (("train", 256), ("dev", 64)):
        lines = ["sentence\tlabel"]
        for number in range(count):
            label = number % 2
            words = [str(word) for word in rng.choice(FILLERS, size=int(rng.integers(1, 8)))]
            words.insert(int(rng.integers(len(words) + 1)), ["dull", "fine"][label])
            lines.append(f"{' '.join(words)} \t{label}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
