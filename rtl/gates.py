#!/usr/bin/env python3
"""Prints a row of a table about a netlist: rtl/gates.py [--mapped] NAME LOG

Reads the last `stat` and `ltp` of a yosys log file: gates, registers, gate equivalents and depth. A
gate equivalent is the area of a two-input NAND; the other areas are those of the NanGate 45 nm open
cell library at drive X1: NAND2 0.798, INV 0.532, AOI21 1.064, XOR2 1.596, MUX2 1.862, DFF 4.522
square micrometres. Registers with a reset or an enable are counted as a DFF and, for the enable, a
MUX2.

With --mapped the netlist consists of the cells of a library: cells, registers, area in the unit of
the library, delay in ns, and the first and last signal and the gates of the longest path.
"""

import re
import sys

NAND2 = 0.798
AREA = {
    "NAND": 0.798, "NOR": 0.798, "NOT": 0.532, "AND": 1.064, "OR": 1.064, "ANDNOT": 1.064,
    "ORNOT": 1.064, "XOR": 1.596, "XNOR": 1.596, "MUX": 1.862, "AOI3": 1.064, "OAI3": 1.064,
}  # fmt: skip
DFF = 4.522


def count(text):
    """(gates, registers, gate equivalents, longest path in gates)."""
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


def last(pattern, text, what):
    found = re.findall(pattern, text)
    if not found:
        sys.exit(f"gates: the log has no {what}; see its end for the error")
    return found[-1]


def mapped(text):
    """(cells, registers, area, delay in ns, gates of the longest path, its first and last signal)."""
    cells = int(last(r"Number of cells: +(\d+)", text, "cells"))
    area = float(last(r"Chip area for (?:top )?module .*: ([\d.]+)", text, "area"))
    delay = float(last(r"ABC: .*Delay = *([\d.]+) ps", text, "delay"))
    path = text[text.rindex("ABC: Path  0 --") :]
    gates = len(re.findall(r"ABC: Path +\d+ -- .*\bA = ", path)) - 1  # less the input
    start, end = last(r"Start-point = \w+ \(\\?(.*?)\)\. +End-point = \w+ \(\\?(.*?)\)\.", path, "path")
    flops = int(last(r"(\d+) objects", text, "registers"))
    return cells, flops, area, delay / 1000, gates, start.replace(" ", ""), end.replace(" ", "")


def main(arguments):
    is_mapped = arguments[:1] == ["--mapped"]
    if len(arguments) - is_mapped != 2:
        sys.exit("usage: rtl/gates.py [--mapped] NAME LOG")
    name, log = arguments[-2:]
    with open(log) as file:
        text = file.read()
    if is_mapped:
        cells, registers, area, delay, gates, start, end = mapped(text)
        print(f"{name:<32} {cells:>8} {registers:>9} {area:>10.0f} {delay:>6.2f} {gates:>5}  {start} -> {end}")
        return
    gates, registers, equivalents, depth = count(text)
    print(f"{name:<44} {gates:>8} {registers:>9} {equivalents:>9.0f} {depth:>6}")


if __name__ == "__main__":
    main(sys.argv[1:])
