"""Code that all readers of data share."""

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
