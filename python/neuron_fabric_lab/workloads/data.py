"""Code that all readers of data share."""

import lzma
from collections.abc import Iterable
from pathlib import Path


class DataError(RuntimeError):
    """Data that is missing or malformed."""


def existing_folder(folder: str | Path | None, name: str, what: str) -> Path:
    """Raises DataError if no folder was given, or it does not exist."""
    if folder is None:
        raise DataError(f"{name} needs a folder with its {what}: --data FOLDER")
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder")
    return root


def first_file(folders: Iterable[Path], names: Iterable[str]) -> Path | None:
    """The first of the files that exists, or that exists with .xz."""
    names = list(names)
    candidates = (folder / f"{name}{packed}" for folder in folders for name in names for packed in ("", ".xz"))
    return next(filter(Path.exists, candidates), None)


def read_lines(path: Path) -> list[str]:
    """The lines of a text, compressed if the name ends in .xz. Raises DataError with the name of the file."""
    try:
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        return data.decode("utf-8").splitlines()
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
