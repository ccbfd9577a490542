"""`nf report`: a page about a run, made only from the files in its folder (docs/telemetry.md).

Needs only the standard library. The page needs no network and no server.
"""

from pathlib import Path

from .page import page
from .run import Run, RunError, read_run

__all__ = ["Run", "RunError", "make_page", "read_run"]


def make_page(run_dir: str | Path) -> str:
    """The HTML of a run. Raises RunError."""
    return page(read_run(Path(run_dir)))
