"""`nf report RUN_DIR|PROFILE -o FILE`, also `python -m neuron_fabric.report`."""

import argparse
import sys
from pathlib import Path

from ..support import units
from ..support.files import write_atomic
from .calibration import ProfileError, body, read_profile
from .page import frame, page
from .run import RunError, read_run


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nf report",
                                     description="Makes one HTML page of a run (bytes, time, "
                                     "admissions and fallbacks with their reasons), or of a "
                                     "calibrated profile (its evidence).")
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path,
                        help="the folder that was run_dir of attach(), or a profile of "
                             "`nf calibrate`")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path,
                        help="the page to write (RUN_DIR/report.html, or beside the profile)")
    return parser.parse_args(arguments)


def show_progress(share: float) -> None:
    if sys.stderr.isatty():
        print(f"\rreading {100 * share:.0f} %", end="\r" if share < 1 else "\n", file=sys.stderr)


def write(path: Path, text: str) -> int:
    """Writes the page atomically, so that a browser never reads half a page."""
    data = text.encode(errors="replace")
    try:
        write_atomic(path, data)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
    return len(data)


def report_profile(path: Path, output: Path | None) -> int:
    output = output or path.with_suffix(".html")
    try:
        profile = read_profile(path)
        size = write(output, frame(str(profile["name"]), body(profile)))
    except (ProfileError, RunError) as error:
        print(f"nf report: {error}", file=sys.stderr)
        return 2
    print(f"wrote {output}: {units.byte_count(size)}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.run_dir.suffix == ".json":
        return report_profile(options.run_dir, options.output)
    folder = options.run_dir if options.run_dir.is_dir() else options.run_dir.parent
    output = options.output or folder / "report.html"
    try:
        run = read_run(options.run_dir, show_progress)
        size = write(output, page(run))
    except RunError as error:
        print(f"nf report: {error}", file=sys.stderr)
        return 2
    print(f"wrote {output}: {units.counted(run.summary.steps, 'step')}, {units.byte_count(size)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
