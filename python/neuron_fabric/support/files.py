"""Files that are whole or not there."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[Path]:
    """A place to write to, which then becomes the file: whoever reads meanwhile, or comes after an
    interruption, finds the file of before. Raises OSError, and leaves nothing behind on any error; a
    process that is killed leaves NAME.TOKEN.part. The token cannot be guessed, so that no other user
    who writes to the folder can put a link in its place."""
    path = Path(path)
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o666))
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike, content: str | bytes) -> None:
    """In one piece, as whole_file() does it."""
    with whole_file(path) as part:
        part.write_bytes(content if isinstance(content, bytes) else content.encode(errors="replace"))
