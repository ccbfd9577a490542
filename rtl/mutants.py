#!/usr/bin/env python3
"""Makes mutants of the RTL: versions of rtl/src with one small fault each. Used by rtl/mutate.sh.

    rtl/mutants.py list [COUNT]     the ids of the first COUNT mutants (default: all)
    rtl/mutants.py show ID          the rule, and the line before and after
    rtl/mutants.py open [COUNT]     the ids of those that no test has detected so far
    rtl/mutants.py write ID FOLDER  writes the changed sources
    rtl/mutants.py join COUNT FOLDER  writes sources that hold many of the mutants at once, of which
                                    nf_mutant() selects one, and prints "NUMBER ID FILE" of each
    rtl/mutants.py result ID        the file for the result of its tests
    rtl/mutants.py report [COUNT]   judges the results; fails if a mutant survives

Each rule is textual and changes one place of one line. The order of the mutants is fixed by a hash
of their text: first three of every module, then all modules in proportion to their size. An id is
the module, the line and the number of the mutant of that line.

A mutant that behaves like the original in every reachable state is listed in docs/rtl.md, in the
table under "Equivalent mutants", with the reason.
"""

import hashlib
import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "rtl/src").glob("*.sv"))
PER_MODULE = 3  # mutants of each module that come first


class Mutant(NamedTuple):
    file: pathlib.Path
    line: int  # from 1
    index: int  # of the mutants of this line
    rule: str
    before: str  # without comments
    after: str

    @property
    def id(self):
        return f"{self.file.stem}.{self.line}.{self.index}"

    @property
    def result(self):
        """Kept while the module is unchanged."""
        module = hashlib.sha256(self.file.read_bytes()).hexdigest()[:12]
        return ROOT / "build/rtl/mutants" / f"{self.id}-{module}.result"

    @property
    def order(self):
        text = "\0".join((self.file.stem, self.rule, self.before, self.after))
        return hashlib.sha256(text.encode()).hexdigest()


def swap(pattern, replacement):
    """A rule that replaces each match in turn."""

    def places(code):
        for match in re.finditer(pattern, code):
            yield code[: match.start()] + match.expand(replacement) + code[match.end() :]

    return places


def nudge(pattern, step):
    """A rule that changes the last group, a decimal number, by `step`."""

    def places(code):
        for match in re.finditer(pattern, code):
            value = int(match.group(match.lastindex)) + step
            if value >= 0:
                start, end = match.span(match.lastindex)
                yield code[:start] + str(value) + code[end:]

    return places


def closing(code, start):
    """The place after the bracket that closes the one before `start`, or None."""
    depth = 1
    for at in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at + 1
    return None


def conditions(code):
    """Conditions of `if` that lie within the line become true."""
    for match in re.finditer(r"\bif \(", code):
        if end := closing(code, match.end()):
            yield code[: match.end()] + "1'b1" + code[end - 1 :]


def stores(code):
    """A register that is not written."""
    match = re.fullmatch(r"(.*?)([\w.\[\]+:*-]+ +<= [^;]*;)", code)
    if match and "=" not in match.group(1).replace("==", ""):
        yield match.group(1) + ";"


RULES = {
    "equal": swap(r"==", "!="),
    "unequal": swap(r"!=", "=="),
    "at least": swap(r">=", ">"),
    "above": swap(r"(?<=\s)>(?=\s)", ">="),
    "below": swap(r"(?<=\s)<(?=\s)", "<="),
    "at most": swap(r"(?<==\s)([\w.]+) <= ", r"\1 < "),
    "and": swap(r"&&", "||"),
    "or": swap(r"\|\|", "&&"),
    "bit and": swap(r"(?<=\s)&(?=\s)", "|"),
    "bit or": swap(r"(?<=\s)\|(?=\s)", "&"),
    "bit xor": swap(r"(?<=\s)\^(?=\s)", "|"),
    "all bits": swap(r"(?<=\()&(?=\w)", "|"),
    "any bit": swap(r"\|(?=[\w(])", "&"),
    "plus": swap(r"(?<=\s)\+(?=\s)", "-"),
    "minus": swap(r"(?<=\s)-(?=\s)", "+"),
    "shift left": swap(r"<<", ">>"),
    "shift right": swap(r">>", "<<"),
    "not": swap(r"!(?=[\w(])", ""),
    "either way": swap(r"(?<=\s)([\w.\[\]]+) \?", r"!\1 ?"),
    "without operand": swap(r" && !?[\w.\[\]]+(?=[;)]|$)", ""),
    "without first operand": swap(r"((?:^|[^=])= |\()!?[\w.\[\]]+ && ", r"\1"),
    "zero": swap(r"(?<![\w'])'0", "'1"),
    "bit 0": swap(r"1'b0", "1'b1"),
    "bit 1": swap(r"1'b1", "1'b0"),
    "one more": nudge(r"(\d+)'d(\d+)", 1),
    "one less": nudge(r"(\d+)'d(\d+)", -1),
    "constant more": nudge(r"(localparam int unsigned \w+ = )(\d+)(?=;)", 1),
    "constant less": nudge(r"(localparam int unsigned \w+ = )(\d+)(?=;)", -1),
    "narrower": swap(r"(?<=^  logic \[)([^\]:]*):0\]", r"\1-1:0]"),
    "condition": conditions,
    "store": stores,
}


def code_of(line):
    return re.sub(r"\s*//.*", "", line)


def mutants_of(file):
    seen = set()
    for number, line in enumerate(file.read_text().splitlines(), 1):
        code = code_of(line)
        # Not mutated: ports, loops, and sizes that depend on whether there is only one of something.
        if re.match(r"\s*(input|output|parameter|module|import|for)\b|.*\$clog2", code):
            continue
        index = 0
        for rule, places in RULES.items():
            for after in places(code):
                if after != code and (number, after) not in seen:
                    seen.add((number, after))
                    index += 1
                    yield Mutant(file, number, index, rule, code, after)


def all_mutants():
    ranked = []
    for file in SOURCES:
        mutants = sorted(mutants_of(file), key=lambda mutant: mutant.order)
        for i, mutant in enumerate(mutants):
            rank = i / 1e6 if i < PER_MODULE else i / len(mutants)
            ranked.append((rank, mutant.order, mutant))
    return [mutant for _, _, mutant in sorted(ranked, key=lambda entry: entry[:2])]


def mutant_with(mutant_id):
    for mutant in all_mutants():
        if mutant.id == mutant_id:
            return mutant
    sys.exit(f"mutants: no mutant {mutant_id}; `rtl/mutants.py list` prints all")


def expressions(code):
    """The spans of whole expressions of a line: conditions, connections, and what is assigned."""
    for match in re.finditer(r"\bif \(", code):
        if end := closing(code, match.end()):
            yield match.end(), end - 1
    if match := re.fullmatch(r"\s*\.\w+ *\((.*)\),?", code):
        yield match.span(1)
    depth = 0
    for at, character in enumerate(code):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if depth == 0 and re.match(r"(?<![=!<>])<?= ", code[at:]) and code.endswith(";"):
            yield code.index("= ", at) + 2, len(code) - 1
            break


def is_whole(text):
    depth = 0
    for character in text:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0 and text.strip() != "" and ";" not in text


def place_of(mutant):
    """The span of an expression that holds the fault, and the faulty one; None if there is none."""
    before, after = mutant.before, mutant.after
    if re.match(r"\s*(localparam|typedef|logic|ERROR_|MODE_\w+ +=)|.* begin : ", before):
        return None
    for start, end in expressions(before):
        faulty = after[start : len(after) - (len(before) - end)]
        is_same_else = after.startswith(before[:start]) and after.endswith(before[end:])
        if is_same_else and is_whole(before[start:end]) and is_whole(faulty):
            return start, end, faulty
    return None


def selected(number):
    return f"nf_reducer_pkg::mutant == {number}"


def joined_line(code, mutants):
    """The line with all these (number, mutant), of which one or none is selected."""
    spans, skips, edits = {}, [], []
    for number, mutant in mutants:
        if mutant.rule == "store":
            skips.append(selected(number))
            store_at = len(mutant.after) - 1
        else:
            start, end, faulty = place_of(mutant)
            spans.setdefault((start, end), []).append((number, faulty))
    for (start, end), choices in spans.items():
        text = f"({code[start:end]})"
        for number, faulty in choices:
            text = f"({selected(number)} ? ({faulty}) : {text})"
        edits.append((start, end, text))
    if skips:
        edits.append((store_at, store_at, f"begin if (!({' || '.join(skips)})) "))
        edits.append((len(code), len(code), " end"))
    for start, end, text in sorted(edits, reverse=True):
        code = code[:start] + text + code[end:]
    return code


def is_joinable(mutant):
    return mutant.rule == "store" or place_of(mutant) is not None


def is_open(mutant):
    return not mutant.result.exists() or mutant.result.read_text().strip() == "survives"


def write(folder, change):
    folder.mkdir(parents=True, exist_ok=True)
    for file in SOURCES:
        lines = file.read_text().splitlines()
        change(file, lines)
        (folder / file.name).write_text("\n".join(lines) + "\n")


def write_one(mutant, folder):
    def change(file, lines):
        if file == mutant.file:
            lines[mutant.line - 1] = mutant.after

    write(folder, change)


def write_joined(mutants, folder):
    numbered = [(i, m) for i, m in enumerate(mutants, 1) if is_joinable(m) and is_open(m)]
    numbered = [(i, m) for i, m in numbered if m.file.stem != "nf_skid_buffer"]  # proved alone

    def change(file, lines):
        for line in {mutant.line for _, mutant in numbered if mutant.file == file}:
            here = [(i, m) for i, m in numbered if (m.file, m.line) == (file, line)]
            lines[line - 1] = joined_line(here[0][1].before, here)
        if file.stem == "nf_reducer_pkg":
            at = next(i for i, line in enumerate(lines) if line.startswith("package"))
            lines[at] += ' import "DPI-C" function int nf_mutant(); int mutant = nf_mutant();'

    write(folder, change)
    for number, mutant in numbered:
        print(number, mutant.id, mutant.result)


def equivalents():
    """(module, line before, line after) of the table in docs/rtl.md."""
    sections = (ROOT / "docs/rtl.md").read_text().split("### Equivalent mutants\n")
    if len(sections) != 2:
        sys.exit('mutants: docs/rtl.md has no section "Equivalent mutants"')
    text = sections[1].split("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \| `(.*?)` \| ", text, re.MULTILINE)
    return {tuple(cell.replace("\\|", "|") for cell in row) for row in rows}


def report(mutants):
    known, counts, survivors = equivalents(), {}, []
    for mutant in mutants:
        if not mutant.result.exists():
            sys.exit(f"mutants: {mutant.id} has no result; rtl/mutate.sh one {mutant.id} tests it")
        result = mutant.result.read_text().strip()
        if result == "survives":
            if (mutant.file.stem, mutant.before.strip(), mutant.after.strip()) in known:
                result = "equivalent"
            else:
                survivors.append(mutant)
        counts[result] = counts.get(result, 0) + 1
    for result, count in sorted(counts.items(), key=lambda entry: -entry[1]):
        print(f"{count:5}  {result}")
    for mutant in survivors:
        show(mutant)
    if survivors:
        sys.exit(f"mutants: {len(survivors)} of {len(mutants)} survive")
    print(f"ok: {len(mutants)} mutants, none survives")


def show(mutant):
    print(f"{mutant.id}: {mutant.rule}\n  - {mutant.before.strip()}\n  + {mutant.after.strip()}")


def main(arguments):
    command, *rest = arguments or [""]
    count = int(rest[0]) if rest and rest[0].isdigit() else None
    if command in ("list", "open") and len(rest) <= 1:
        for mutant in all_mutants()[:count]:
            if command == "list" or is_open(mutant):
                print(mutant.id)
    elif command == "show" and len(rest) == 1:
        show(mutant_with(rest[0]))
    elif command == "write" and len(rest) == 2:
        write_one(mutant_with(rest[0]), pathlib.Path(rest[1]))
    elif command == "join" and len(rest) == 2:
        write_joined(all_mutants()[:count], pathlib.Path(rest[1]))
    elif command == "result" and len(rest) == 1:
        print(mutant_with(rest[0]).result)
    elif command == "report" and len(rest) <= 1:
        report(all_mutants()[:count])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
