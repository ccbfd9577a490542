#!/usr/bin/env python3
"""Creates docs/results.md and its pictures from the results in bench/results/NAME/*.json.

    scripts/results.py                 # all results
    scripts/results.py -o page.md --images img bench/results/hostile

Remarks on a result are in bench/results/NAME/note.md. If the runs shared the machine with other work, the remarks are
in shared_machine.md instead, and the page omits the times.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "python"))  # if the package is not installed
from neuron_fabric_lab.compare.page import PageError, make_page  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*", help="directories with results (those in bench/results)")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--images", type=Path, help="directory of the pictures (img next to the page)")
    options = parser.parse_args()
    try:
        folders = options.folders or sorted(
            path for path in (ROOT / "bench" / "results").iterdir() if path.is_dir())
        empty = make_page(folders, options.out, options.images or options.out.parent / "img")
    except (PageError, OSError) as error:
        print(f"results: {error}", file=sys.stderr)
        return 1
    for name in empty:
        print(f"results: {name} has no finished result of nf train", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
