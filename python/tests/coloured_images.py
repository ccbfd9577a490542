"""Synthetic images in folders in the format of CIFAR: every class has its own colour."""

from pathlib import Path

import numpy as np

CLASSES = 8


def coloured(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    colours = np.stack([labels % 2, labels // 2 % 2, labels // 4], axis=1) * 120 + 60
    noise = rng.integers(-60, 60, size=(count, 32, 32, 3))
    return (colours[:, None, None] + noise).astype(np.uint8), labels


def write_npz(folder: Path, name: str) -> Path:
    for split, count in (("train", 256), ("test", 64)):
        images, labels = coloured(count, len(split))
        np.savez(folder / f"{name}_{split}.npz", images=images, labels=labels)
    return folder
