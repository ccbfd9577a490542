"""Telemetry as a file of JSON lines, the input of `nf report`."""

import json
from pathlib import Path

from .stream import Reader, Record


_open_files: set[Path] = set()  # of this process


def run_file(run_dir: str | Path, rank: int) -> Path:
    """RUN_DIR/rank<R>.jsonl; RUN_DIR/model2/rank<R>.jsonl for a second model attached in the same
    process, and so on."""
    folder, number = Path(run_dir).absolute(), 1
    path = folder / f"rank{rank}.jsonl"
    while path in _open_files:
        number += 1
        path = folder / f"model{number}" / f"rank{rank}.jsonl"
    return path


class JsonLines(Reader):
    """Appends to `path`, so that a resumed job continues in the same file."""

    def __init__(self, path: str | Path):
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self._path, "ab")
        _open_files.add(self._path)
        if _is_cut_off(self._path):  # a job was killed in the middle of a line
            self._file.write(b"\n")

    def write(self, record: Record) -> None:
        text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
        self._file.write(text.encode(errors="replace") + b"\n")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        _open_files.discard(self._path)
        self._file.close()


def _is_cut_off(path: Path) -> bool:
    with open(path, "rb") as file:
        if file.seek(0, 2) == 0:
            return False
        file.seek(-1, 2)
        return file.read(1) != b"\n"
