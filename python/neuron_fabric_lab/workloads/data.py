"""What all readers of data share."""

from pathlib import Path


class DataError(RuntimeError):
    """Data that is missing or not what it says it is."""


def existing_folder(folder: str | Path | None, name: str, what: str) -> Path:
    """Fails with DataError where none was given, or there is none."""
    if folder is None:
        raise DataError(f"{name} needs a folder with its {what}: --data FOLDER")
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root} is no folder")
    return root
