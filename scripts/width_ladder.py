#!/usr/bin/env python3
"""Measures the error of every width of waterfill over every shape of sum, and writes the table from
which it chooses: scripts/width_ladder.py NF > src/codec/waterfill/width_thresholds.inc

For each shape and number of ranks, -8 log2 of what a width saves over the one before it, for each
bit of its cost, once with width 0, which loses everything, and once without. Where a width is not
worth having at all, it shares the threshold of the next one.
"""

import json
import math
import subprocess
import sys

SHAPES = {"chain": "ring", "tree": "tree", "star": "direct"}
RANKS = (2, 4, 8, 16, 32, 64)
WIDTHS = range(2, 11)
ZERO_TO_TWO = 2.3125  # bits that the first width costs over none: its own, a unit and scales
ARGUMENTS = ["--gradients", "gaussian:1", "--correlation", "0", "--elements", "131072"]


def measured(nf, topology, ranks):
    """{width: error}, width 0 included."""
    codecs = ",".join(f"waterfill+width={width}" for width in WIDTHS)
    command = [nf, "quality", *ARGUMENTS, "--ranks", str(ranks), "--topology", topology,
               "--codec", codecs, "--json"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {0: 1.0, **{width: json.loads(line)["vnmse"] for width, line in zip(WIDTHS, lines)}}


def thresholds(errors, first):
    """One integer for each width from 2; the differences between them are what matters."""
    widths = [width for width in sorted(errors) if width >= first]
    cost = {width: width + (ZERO_TO_TWO - 2 if width else 0) for width in widths}

    def slope(a, b):
        return (errors[a] - errors[b]) / (cost[b] - cost[a])

    hull = widths[:1]  # widths on the lower convex hull of error over cost
    for width in widths[1:]:
        while len(hull) > 1 and slope(hull[-2], hull[-1]) <= slope(hull[-1], width):
            hull.pop()
        hull.append(width)
    shift = 147 + 8 * math.log2(errors[9] - errors[10])
    result = [] if first == 0 else [0]  # nothing to step up from
    for width in widths[1:]:
        to = next(h for h in hull if h >= width)
        since = max(h for h in hull if h < to)
        result.append(round(shift - 8 * math.log2(slope(since, to))))
    return result


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    errors = {shape: {ranks: measured(sys.argv[1], topology, ranks) for ranks in RANKS}
              for shape, topology in SHAPES.items()}
    print("// Made by scripts/width_ladder.py, which measures")
    print(f"//   nf quality {' '.join(ARGUMENTS)} --codec waterfill+width=2,...")
    print("// over ring, tree and direct. By shape, by ranks (2, 4, 8, 16, 32, 64), by width (2 to 10).")
    print("// clang-format off")
    for name, first in (("kFromTwo", 2), ("kFromZero", 0)):
        print(f"constexpr Table {name} = {{{{")
        for shape, by_ranks in errors.items():
            print(f"    {{{{  // {shape}")
            for ranks, of_widths in by_ranks.items():
                row = ", ".join(str(t) for t in thresholds(of_widths, first))
                print(f"        {{{row}}},  // {ranks}")
            print("    }},")
        print("}};")
    print("// clang-format on")


if __name__ == "__main__":
    main()
