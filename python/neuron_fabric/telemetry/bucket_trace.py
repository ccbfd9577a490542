"""The buckets of a run as a trace, the input of `nf replay` (docs/cxl.md)."""

import json
from pathlib import Path

from .stream import Reader, Record

FORMAT = "neuron_fabric.buckets"


class BucketTrace(Reader):
    """Overwrites `path`: one line about the job, then one per bucket of every step."""

    def __init__(self, path: str | Path) -> None:
        Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "w")
        self._buckets: list[Record] = []

    def write(self, record: Record) -> None:
        match record.get("event"):
            case "attach":
                self._line({"format": FORMAT, "version": 1, "name": record.get("profile", ""),
                            "workers": record.get("ranks", 0)})
            case "buckets":  # precedes the first step with these buckets
                self._buckets = record["buckets"]
            case "step":
                for bucket in self._buckets:
                    self._line({"step": record["step"]} | bucket)

    def _line(self, fields: Record) -> None:
        self._file.write(json.dumps(fields) + "\n")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
