#!/usr/bin/env python3
"""Prints the named fields of every JSON line of stdin; without names, the keys of every line.

Numbers are rounded to four decimals.
"""

import json
import sys


def text(value):
    return f"{value:.4f}" if isinstance(value, float) else str(value)


for line in sys.stdin:
    row = json.loads(line)
    print(*([text(row[name]) for name in sys.argv[1:]] or row))
