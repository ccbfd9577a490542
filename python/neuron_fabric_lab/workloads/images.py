"""Labelled images of 32 x 32 pixels from a user's folder: CIFAR-10 and CIFAR-100 in common formats."""

import pickle
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .data import DataError, existing_folder

SIDE = 32
IN_A_ROW = 100  # images of a mosaic


@dataclass(frozen=True)
class Images:
    pixels: np.ndarray  # uint8, (n, 32, 32, 3)
    labels: np.ndarray  # int64, (n,)


def read_images(folder: str | Path | None, name: str, classes: int, split: str) -> Images:
    """`split` is train or test. The folder has one of
    NAME_train.npz, NAME_test.npz      arrays `images` (n, 32, 32, 3) and `labels`
    cifar-100-python, cifar-10-batches-py      as published
    NAME_train*.jpg, NAME_test.jpg     mosaics of 100 images per row; image i has the label i % classes
    """
    root = existing_folder(folder, name, "images")
    for reader in (_read_npz, _read_official, _read_mosaics):
        if (found := reader(root, name, classes, split)) is not None:
            return _checked(found, root, name, classes)
    official = "cifar-100-python" if classes == 100 else "cifar-10-batches-py"
    raise DataError(
        f"{root} has no {split} images of {name}: neither {name}_{split}.npz nor the published "
        f"folder {official} nor {name}_{split}*.jpg")


def _checked(images: Images, root: Path, name: str, classes: int) -> Images:
    shape, labels = images.pixels.shape, images.labels
    if shape[1:] != (SIDE, SIDE, 3) or len(labels) != shape[0] or shape[0] == 0:
        raise DataError(f"{root}: {name} has images of shape {shape} and {len(labels)} labels")
    if labels.min() < 0 or labels.max() >= classes:
        raise DataError(f"{root}: {name} has labels from {labels.min()} to {labels.max()}, not "
                        f"below {classes}")
    return images


def _read_npz(root: Path, name: str, classes: int, split: str) -> Images | None:
    path = root / f"{name}_{split}.npz"
    if not path.exists():
        return None
    try:
        with np.load(path) as file:
            return Images(_pixels(file["images"]), _labels(file["labels"]))
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: {error}") from error


def _pixels(values: np.ndarray) -> np.ndarray:
    """Raises ValueError, in particular for values from 0 to 1, which would all become black."""
    return _cast(values, np.uint8, "images of whole numbers from 0 to 255")


def _labels(values: np.ndarray) -> np.ndarray:
    return _cast(values, np.int64, "labels that are whole numbers")


def _cast(values: np.ndarray, kind: type, needed: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # for NaN, Inf and values that are too large
        cast = values.astype(kind)
    if not np.array_equal(cast, values):
        raise ValueError(f"it needs {needed}")
    return cast


def _read_official(root: Path, name: str, classes: int, split: str) -> Images | None:
    if classes == 100:
        files, key = [root / "cifar-100-python" / split], b"fine_labels"
    else:
        batches = [f"data_batch_{i}" for i in range(1, 6)] if split == "train" else ["test_batch"]
        files, key = [root / "cifar-10-batches-py" / batch for batch in batches], b"labels"
    if not files[0].exists():
        return None
    parts = [_read_pickle(path, key) for path in files]
    return Images(np.concatenate([part.pixels for part in parts]),
                  np.concatenate([part.labels for part in parts]))


def _read_pickle(path: Path, key: bytes) -> Images:
    try:
        with open(path, "rb") as file:
            found = _Numbers(file, encoding="bytes").load()
        pixels = _pixels(np.asarray(found[b"data"])).reshape(-1, 3, SIDE, SIDE)
        return Images(pixels.transpose(0, 2, 3, 1), _labels(np.asarray(found[key])))
    except Exception as error:  # a damaged pickle may raise any exception
        raise DataError(f"{path}: {error!r}") from error


class _Numbers(pickle.Unpickler):
    """Arrays and plain values only: no code runs."""

    def find_class(self, module: str, name: str) -> object:
        if module.split(".")[0] == "numpy" and name in ("ndarray", "dtype", "_reconstruct",
                                                        "_frombuffer"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _read_mosaics(root: Path, name: str, classes: int, split: str) -> Images | None:
    files = sorted(root.glob(f"{name}_{split}*.jpg"))
    if not files:
        return None
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise DataError("mosaics need Pillow: pip install pillow") from error
    parts = []
    for path in files:
        try:
            with Image.open(path) as image:
                mosaic = np.asarray(image.convert("RGB"))
        except OSError as error:
            raise DataError(f"{path}: {error}") from error
        height, width = mosaic.shape[:2]
        if height % SIDE or width != IN_A_ROW * SIDE:
            raise DataError(f"{path} is {width} x {height} pixels, not rows of {IN_A_ROW} "
                            f"images of {SIDE} x {SIDE}")
        tiles = mosaic.reshape(height // SIDE, SIDE, IN_A_ROW, SIDE, 3)
        parts.append(tiles.transpose(0, 2, 1, 3, 4).reshape(-1, SIDE, SIDE, 3))
    pixels = np.concatenate(parts)
    return Images(pixels, np.arange(len(pixels), dtype=np.int64) % classes)
