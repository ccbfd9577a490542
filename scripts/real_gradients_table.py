#!/usr/bin/env python3
"""Prints the results of scripts/real_gradients.sh as Markdown tables and checks them against limits.

    scripts/real_gradients_table.py OUT.jsonl
A cell of the first table is vnmse \\| parameter_vnmse; a cell of the second is a ratio of two errors.
Exit status: 0 if every ratio is within its limit, 1 if one exceeds it or is missing.
"""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

TOPOLOGIES = ["ring", "tree", "direct"]
CODECS = ["dynamiq:4", "waterfill:4", "dynamiq:5", "waterfill:5"]
MEASURES = ["vnmse", "parameter_vnmse"]
JUDGED_RANKS = 8


class Comparison(NamedTuple):
    upper: tuple[str, str]  # codec, topology
    lower: tuple[str, str]
    bars: tuple  # the largest allowed ratio per measure; None: not judged


COMPARISONS = [
    *(Comparison(("waterfill:5", t), ("dynamiq:5", t), (0.65, 0.65)) for t in ["ring", "tree"]),
    *(Comparison(("waterfill:4", t), ("dynamiq:4", t), (0.7, 0.4)) for t in ["ring", "tree"]),
    Comparison(("waterfill:5", "direct"), ("dynamiq:5", "direct"), (None, None)),
    Comparison(("waterfill:4", "direct"), ("dynamiq:4", "direct"), (None, None)),
    Comparison(("waterfill:4", "direct"), ("dynamiq:5", "ring"), (1.15, 1.15)),
]


def read(lines):
    """{(dump, ranks, codec, topology): errors}; a later line replaces an earlier one."""
    found = {}
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            key = (Path(row["gradients"]).stem, row["ranks"], row["codec"], row["topology"])
            found[key] = {measure: float(row[measure]) for measure in [*MEASURES, "bits"]}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"line {number} is not a result: {error!r}") from error
    if not found:
        raise ValueError("the file has no results")
    return found


def by_step(name):
    """Sort key that puts gpt_500 after gpt_50."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def markdown(head, rows):
    for cells in [head, ["---"] * len(head), *rows]:
        yield "| " + " | ".join(cells) + " |"


def error_table(found, dumps, all_ranks):
    rows = []
    for ranks in all_ranks:
        for topology in TOPOLOGIES:
            for codec in CODECS:
                row = [found.get((dump, ranks, codec, topology)) for dump in dumps]
                if any(row):
                    bits = max(cell["bits"] for cell in row if cell)
                    rows.append([str(ranks), topology, codec, f"{bits:.2f}",
                                 *(error_cell(cell) for cell in row)])
    return markdown(["ranks", "topology", "codec", "bits", *dumps], rows)


def error_cell(cell):
    return " \\| ".join(f"{cell[measure]:.2g}" for measure in MEASURES) if cell else "-"


def ratios(found, dumps, ranks, comparison, measure):
    """The ratio for each dump; None if an error is missing or the divisor is 0."""
    for dump in dumps:
        upper, lower = (found.get((dump, ranks, *side), {}).get(measure)
                        for side in (comparison.upper, comparison.lower))
        yield upper / lower if upper is not None and lower else None


def verdict(values, bar):
    if any(value is None for value in values):
        return "MISSING"
    # Not `any(value > bar)`: NaN must fail.
    return "pass" if all(value <= bar for value in values) else "FAIL"


def ratio_table(found, dumps, all_ranks):
    """(lines, whether all judged ratios pass)"""
    rows = []
    is_passed = JUDGED_RANKS in all_ranks
    for ranks in all_ranks:
        for comparison in COMPARISONS:
            for measure, bar in zip(MEASURES, comparison.bars):
                values = list(ratios(found, dumps, ranks, comparison, measure))
                is_judged = bar is not None and ranks == JUDGED_RANKS
                word = verdict(values, bar) if is_judged else ""
                is_passed &= word in ("pass", "")
                rows.append([str(ranks), " ".join(comparison.upper) + " / " +
                             " ".join(comparison.lower), measure,
                             *("-" if value is None else f"{value:.3f}" for value in values),
                             str(bar) if is_judged else "", word])
    return markdown(["ranks", "ratio", "of", *dumps, "bar", ""], rows), is_passed


def main(arguments):
    if len(arguments) != 1:
        print("usage: scripts/real_gradients_table.py OUT.jsonl", file=sys.stderr)
        return 2
    try:
        with open(arguments[0]) as file:
            found = read(file)
    except (OSError, ValueError) as error:
        print(f"real_gradients_table: {arguments[0]}: {error}", file=sys.stderr)
        return 2
    dumps = sorted({key[0] for key in found}, key=by_step)
    all_ranks = sorted({key[1] for key in found}, key=lambda n: (n != JUDGED_RANKS, n))
    lines, is_passed = ratio_table(found, dumps, all_ranks)
    print(*error_table(found, dumps, all_ranks), "", *lines, sep="\n")
    return 0 if is_passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
