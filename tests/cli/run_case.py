#!/usr/bin/env python3
"""Runs scripts that use `nf` and compares what they print and how they exit with files beside them.

    tests/cli/run_case.py [--nf build/dev/tools/nf/nf] [--update] tests/cli/*.sh

For case.sh these are case.stdout, case.stderr and case.exit; a missing one means nothing printed, or
exit status 0. In case.stdout.re and case.stderr.re each line is a regular expression instead, for
output that differs by machine or by run. --update writes the files anew, those with expressions
aside. A script starts in an empty folder, with nf on PATH, and finds this folder in $CASES.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT_NF = HERE.parent.parent / "build/dev/tools/nf/nf"


def run(case, nf):
    env = {name: value for name, value in os.environ.items() if not name.startswith("NF_")}
    env |= {"PATH": f"{nf.parent}:{env['PATH']}", "CASES": str(HERE), "LC_ALL": "C"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["bash", "-euo", "pipefail", str(case)], cwd=folder, env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return {"stdout": done.stdout, "stderr": done.stderr,
            "exit": f"{done.returncode}\n" if done.returncode != 0 else ""}


def read(path):
    return path.read_text() if path.exists() else ""


def matches(text, expressions):
    lines, patterns = text.splitlines(), expressions.splitlines()
    return len(lines) == len(patterns) and all(map(re.fullmatch, patterns, lines))


def difference(name, expected, actual):
    return "\n".join(difflib.unified_diff(expected.splitlines(), actual.splitlines(),
                                          f"{name} expected", f"{name} printed", lineterm=""))


def check(case, nf, update):
    """The differences of one case, as text; with `update`, after mending what can be mended."""
    differences = []
    for stream, actual in run(case, nf).items():
        exact, pattern = case.with_suffix(f".{stream}"), case.with_suffix(f".{stream}.re")
        if pattern.exists():
            if not matches(actual, read(pattern)):
                differences.append(difference(pattern.name, read(pattern), actual))
        elif actual != read(exact):
            if not update:
                differences.append(difference(exact.name, read(exact), actual))
            elif actual:
                exact.write_text(actual)
            else:
                exact.unlink()
    return "\n".join(differences)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nf", type=Path, default=DEFAULT_NF, help="the program to test")
    parser.add_argument("--update", action="store_true", help="write the expected files anew")
    parser.add_argument("cases", type=Path, nargs="+", metavar="case.sh")
    options = parser.parse_args()
    nf = options.nf.resolve()
    if not nf.is_file():
        parser.error(f"there is no {nf}")
    failures = 0
    for case in options.cases:
        if text := check(case.resolve(), nf, options.update):
            failures += 1
            print(f"{case.name} differs:\n{text}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
