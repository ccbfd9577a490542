"""Files that are written completely or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a path to write to, which then replaces `path`. Until then, and after an interruption,
    readers find the previous file. Raises OSError, and removes the partial file on any error; a process
    that is killed leaves NAME.TOKEN.part. The token cannot be guessed, so another user with write access
    to the folder cannot put a link in its place."""
    path = Path(path)
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o666))
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_atomic(path: str | os.PathLike, content: str | bytes) -> None:
    """Writes the file at once, with atomic_file()."""
    with atomic_file(path) as part:
        part.write_bytes(content if isinstance(content, bytes) else content.encode(errors="replace"))
