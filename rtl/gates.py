#!/usr/bin/env python3
"""Counts the gate equivalents of a netlist: rtl/gates.py NAME LOG...

Reads the last `stat` and `ltp` of each yosys log file and prints a row of a table. A gate
equivalent is the area of a two-input NAND; the other areas are those of the NanGate 45 nm open
cell library at drive X1: NAND2 0.798, INV 0.532, AOI21 1.064, XOR2 1.596, MUX2 1.862, DFF
4.522 square micrometres. Registers with a reset or an enable are counted as a DFF and, for the
enable, a MUX2.
"""

import re
import sys

NAND2 = 0.798
AREA = {
    "NAND": 0.798, "NOR": 0.798, "NOT": 0.532, "AND": 1.064, "OR": 1.064, "ANDNOT": 1.064,
    "ORNOT": 1.064, "XOR": 1.596, "XNOR": 1.596, "MUX": 1.862, "AOI3": 1.064, "OAI3": 1.064,
}  # fmt: skip
DFF = 4.522


def count(log):
    """(gates, registers, gate equivalents, longest path in gates)."""
    text = open(log).read()
    gates = registers = 0
    area = 0.0
    for name, number in re.findall(r"\n +\$_([A-Z0-9]+)_(?:[PN01]+_)? +(\d+)", text.split("Printing statistics")[-1]):
        number = int(number)
        if "DFF" in name:
            registers += number
            area += number * (DFF + ("E" in name.split("DFF")[1]) * AREA["MUX"])
        else:
            gates += number
            area += number * AREA[name]
    depth = re.findall(r"\(length=(\d+)\)", text)
    return gates, registers, area / NAND2, int(depth[-1]) if depth else 0


def main(arguments):
    if len(arguments) < 2:
        sys.exit("usage: rtl/gates.py NAME LOG...")
    for log in arguments[1:]:
        gates, registers, equivalents, depth = count(log)
        print(f"{arguments[0]:<44} {gates:>8} {registers:>9} {equivalents:>9.0f} {depth:>6}")


if __name__ == "__main__":
    main(sys.argv[1:])
