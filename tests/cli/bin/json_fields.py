#!/usr/bin/env python3
"""Reads JSON lines; prints the named values of each, or without names the keys that it has.

Numbers are cut to four decimals.
"""

import json
import sys


def text(value):
    return f"{value:.4f}" if isinstance(value, float) else str(value)


for line in sys.stdin:
    row = json.loads(line)
    print(*([text(row[name]) for name in sys.argv[1:]] or row))
