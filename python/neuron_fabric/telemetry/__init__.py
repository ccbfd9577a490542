"""Telemetry: one stream of records, and its readers (docs/telemetry.md).

    summary = SummaryReader()
    telemetry = Telemetry(fabric.drain, [summary, *make_readers(rank, run_dir="runs/1")])
    ...
    telemetry.poll()
    print(summary.summary())
    telemetry.close()

Needs neither torch nor the extension; TensorBoard is imported on first use.
"""

from .readers import make_readers
from .stream import Reader, Record, Telemetry

__all__ = ["Reader", "Record", "Telemetry", "make_readers"]
