#!/usr/bin/env python3
"""Joins Liberty files: rtl/liberty.py OUTPUT FILE...

A library may be split into files, one for each kind of cell. The output has the cells of all of
them and the units of the first. Files that end in .gz are unpacked.
"""

import gzip
import pathlib
import re
import sys

UNIT = re.compile(r"^\s*(time_unit|capacitive_load_unit)\b(.*?);", re.MULTILINE)


def body(file):
    data = pathlib.Path(file).read_bytes()
    text = (gzip.decompress(data) if file.endswith(".gz") else data).decode("latin-1")
    match = re.search(r"\blibrary *\([^)]*\) *{", text)
    if match is None:
        sys.exit(f"liberty: {file} has no library")
    return text[match.end() : text.rindex("}")]


def units(text):
    return {name: re.sub(r"[\s:\"]", "", value) for name, value in UNIT.findall(text)}


def main(arguments):
    if len(arguments) < 2:
        sys.exit("usage: rtl/liberty.py OUTPUT FILE...")
    bodies = [body(file) for file in arguments[1:]]
    for file, text in zip(arguments[1:], bodies):
        if units(text) != units(bodies[0]):
            sys.exit(f"liberty: {file} has other units than {arguments[1]}")
    pathlib.Path(arguments[0]).write_text("library (joined) {" + "\n".join(bodies) + "}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
