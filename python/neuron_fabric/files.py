"""Files that are whole or not there."""

import os
from pathlib import Path


def write_whole(path: str | os.PathLike, content: str | bytes) -> None:
    """In one piece: whoever reads meanwhile, or comes after an interruption, finds the file of before.
    Raises OSError, and leaves nothing behind then."""
    path = Path(path)
    data = content if isinstance(content, bytes) else content.encode(errors="replace")
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
