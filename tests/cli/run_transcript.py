#!/usr/bin/env python3
"""Runs console transcripts and compares the output of every command with the recorded one.

    tests/cli/run_transcript.py [--nf PROGRAM] [--update] [-k TEXT] tests/cli/*.transcript

A transcript is a list of cases:

    # An unknown codec is rejected; the nearest one is proposed.
    $ nf bench codec --codec waterfil:4
    stderr| nf: codec 'waterfil' is unknown; did you mean 'waterfill'?
    exit 2

    # The version is three numbers.
    $ nf --version > version
    $ cat version
    ~ nf \\d+\\.\\d+\\.\\d+

Every line begins with a mark:

    # TEXT                       what the case promises; begins a case
    $ TEXT                       a command for bash
    > TEXT                       the next line of the same command
    | TEXT, stderr| TEXT         a line of stdout or stderr
    ~ PATTERN, stderr~ PATTERN   a line that matches a regular expression as a whole
    exit N                       the exit status, if it is not 0

All output must be listed. Every case has its own shell and its own temporary directory. The shell
stops at the first command that fails (set -euo pipefail), so only the last command of a case may
fail. The directory contains links to `data` (tests/cli/data) and `examples`. PATH contains nf and
tests/cli/bin. Variables NF_* are unset.

--update replaces the expectations that fail, and keeps the patterns that match.
"""

import argparse
import difflib
import os
import re
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DEFAULT_NF = ROOT / "build/dev/tools/nf/nf"
NO_NEWLINE = " (no newline at the end)"
EXPECTATION = re.compile(r"(?P<stream>stderr)?(?P<kind>[|~])(?: (?P<text>.*))?")


class TranscriptError(Exception):
    """The transcript itself is malformed."""


@dataclass(frozen=True)
class Line:
    """One expected line of output."""

    text: str
    is_pattern: bool = False

    def matches(self, actual):
        try:
            return bool(re.fullmatch(self.text, actual)) if self.is_pattern else self.text == actual
        except re.error as error:
            raise TranscriptError(f"not a regular expression: {self.text!r}: {error}") from error

    def render(self):
        mark = "~" if self.is_pattern else "|"
        return f"{mark} {self.text}" if self.text else mark


@dataclass
class Result:
    """What a command prints and returns, expected or actual."""

    stdout: list[Line] = field(default_factory=list)
    stderr: list[Line] = field(default_factory=list)
    status: int = 0

    def render(self):
        """The lines of a transcript that expect this result."""
        return [*(line.render() for line in self.stdout),
                *("stderr" + line.render() for line in self.stderr),
                *([f"exit {self.status}"] if self.status else [])]


@dataclass
class Command:
    script: list[str]
    first_line: int      # from 0
    expected_begin: int  # the first line of the expectations
    expected_end: int
    expected: Result = field(default_factory=Result)


@dataclass
class Case:
    title: str
    commands: list[Command] = field(default_factory=list)


def parse(lines, name):
    """The cases of a transcript."""
    cases = []

    def check(condition, problem):
        if not condition:
            raise TranscriptError(f"{name}:{number + 1}: {problem}: {text!r}")

    previous = ""
    for number, text in enumerate(lines):
        mark, _, rest = text.partition(" ")
        case = cases[-1] if cases else None
        command = case.commands[-1] if case and case.commands else None
        if mark == "#" and previous == "#":
            case.title += f" {rest}"
        elif mark == "#":
            check(not case or command, "a case after one without commands")
            cases.append(Case(rest))
        elif mark == "$":
            check(case, "a command before the first case")
            check(not command or command.expected.status == 0, "a command after one that fails")
            case.commands.append(Command([rest], number, number + 1, number + 1))
        elif mark == ">":
            check(command and previous in ("$", ">"), "a continuation of no command")
            command.script.append(rest)
            command.expected_begin = command.expected_end = number + 1
        elif mark == "exit":
            check(command and rest.isdigit(), "not the exit status of a command")
            command.expected.status = int(rest)
            command.expected_end = number + 1
        elif match := EXPECTATION.fullmatch(text):
            check(command, "output of no command")
            stream = getattr(command.expected, match["stream"] or "stdout")
            stream.append(Line(match["text"] or "", match["kind"] == "~"))
            command.expected_end = number + 1
        else:
            check(not text, "not a line of a transcript")
        previous = mark
    return cases


def split_output(text, separator):
    """The lines that each command printed."""
    parts = [part.split("\n") for part in text.split(separator)]
    return [[Line(line) for line in complete] + ([Line(rest + NO_NEWLINE)] if rest else [])
            for *complete, rest in parts]


def run(case, nf):
    """The results of the commands of `case` that were started."""
    separator = f"--{secrets.token_hex(8)}--\n"
    script = ["set -euo pipefail"]
    for command in case.commands:
        script += [*command.script, f"echo {separator.strip()}", f"echo {separator.strip()} >&2"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("NF_")}
    env |= {"PATH": f"{nf.parent}:{HERE / 'bin'}:{env['PATH']}", "LC_ALL": "C"}
    with tempfile.TemporaryDirectory() as folder:
        for source in (HERE / "data", ROOT / "examples"):
            Path(folder, source.name).symlink_to(source)
        done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="backslashreplace")
    results = list(map(Result, split_output(done.stdout, separator),
                       split_output(done.stderr, separator)))
    if len(results) > len(case.commands):  # the part after the last separator is empty
        results.pop()
    else:
        results[-1].status = done.returncode
    return results


def merge(expected, actual):
    """`actual`, with the lines of `expected` that match it in order."""
    merged, start = [], 0
    for line in actual:
        found = next((number for number in range(start, len(expected))
                      if expected[number].matches(line.text)), None)
        merged.append(line if found is None else expected[found])
        start = start if found is None else found + 1
    return merged


def check_case(case, nf):
    """The commands that differ, each with the result that matches, and those that did not run."""
    differing, results = [], run(case, nf)
    for command, actual in zip(case.commands, results):
        matching = Result(merge(command.expected.stdout, actual.stdout),
                          merge(command.expected.stderr, actual.stderr), actual.status)
        if matching != command.expected:
            differing.append((command, matching))
    return differing, case.commands[len(results):]


def run_transcript(path, nf, update=False, wanted=""):
    """Runs the cases of one transcript whose titles contain `wanted`; returns (cases, failures)."""
    lines = path.read_text().removesuffix("\n").split("\n")
    cases = [case for case in parse(lines, path.name) if wanted in case.title]
    failures, replacements = 0, []
    for case in cases:
        differing, not_run = check_case(case, nf)
        if update and not not_run:
            replacements += differing
            continue
        failures += bool(differing or not_run)
        for command, matching in differing:
            print(f"{path}:{command.first_line + 1}: {case.title}", f"  $ {command.script[0]}",
                  *difflib.unified_diff(command.expected.render(), matching.render(),
                                        "expected", "actual", lineterm=""), sep="\n")
        for command in not_run:
            print(f"{path}:{command.first_line + 1}: not run, since an earlier command failed")
    for command, matching in reversed(replacements):
        lines[command.expected_begin:command.expected_end] = matching.render()
    if replacements:
        path.write_text("\n".join(lines) + "\n")
    return len(cases), failures


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nf", type=Path, default=DEFAULT_NF, help="the program to test")
    parser.add_argument("--update", action="store_true", help="replace the expectations that fail")
    parser.add_argument("-k", metavar="TEXT", default="",
                        help="run only the cases with TEXT in their title")
    parser.add_argument("transcripts", type=Path, nargs="+", metavar="TRANSCRIPT")
    options = parser.parse_args(arguments)
    nf = options.nf.resolve()
    if not nf.is_file():
        parser.error(f"{nf} does not exist")
    cases = failures = 0
    try:
        for path in options.transcripts:
            ran, failed = run_transcript(path, nf, options.update, options.k)
            cases += ran
            failures += failed
    except TranscriptError as error:
        parser.error(str(error))
    print(f"{cases} cases, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
