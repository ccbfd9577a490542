"""Text in a folder in the format of WikiText-2: after each word, one word is likely."""

from pathlib import Path

import numpy as np

WORDS = 40


def write_words(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    for split, lines in (("train", 400), ("valid", 40)):
        text, word = [], 0
        for _ in range(lines):
            line = []
            for _ in range(12):
                word = (7 * word + 1) % WORDS if rng.random() < 0.9 else int(rng.integers(WORDS))
                line.append(f"word{word}")
            text.append(f" {' '.join(line)} ")
        (folder / f"wiki.{split}.tokens").write_text("\n".join(text) + "\n", encoding="utf-8")
    return folder
