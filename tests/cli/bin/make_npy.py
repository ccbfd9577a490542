#!/usr/bin/env python3
"""Writes a .npy file of small whole numbers: make_npy.py FILE ROWS COLUMNS [options]."""

import argparse
import struct


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("rows", type=int)
    parser.add_argument("columns", type=int)
    parser.add_argument("--descr", default="<f4")
    parser.add_argument("--fortran", action="store_true", help="claim Fortran order in the header")
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--cut", type=int, default=0, help="bytes missing at the end")
    parser.add_argument("--nan", action="store_true", help="the last value is NaN")
    parser.add_argument("--zero", type=int, default=0, help="leading zeros of each row")
    parser.add_argument("--constant", type=float, help="all values")
    parser.add_argument("--opposite", action="store_true", help="odd rows negate the row before")
    options = parser.parse_args()

    header = (f"{{'descr': '{options.descr}', 'fortran_order': {options.fortran}, "
              f"'shape': ({options.rows}, {options.columns}), }}")
    length = "<H" if options.version == 1 else "<I"
    start = 8 + struct.calcsize(length)
    header += " " * (-(start + len(header) + 1) % 64) + "\n"
    rows = [[0.0 if column < options.zero else float((7 * row + 5 * column) % 17 - 8)
             for column in range(options.columns)] for row in range(options.rows)]
    if options.opposite:
        rows[1::2] = [[-value for value in row] for row in rows[::2]]
    values = sum(rows, [])
    if options.constant is not None:
        values = [options.constant] * len(values)
    if options.nan:
        values[-1] = float("nan")
    file = (b"\x93NUMPY" + bytes([options.version, 0]) + struct.pack(length, len(header)) +
            header.encode() + struct.pack(f"<{len(values)}f", *values))
    with open(options.file, "wb") as out:
        out.write(file[:len(file) - options.cut])


if __name__ == "__main__":
    main()
