"""The documentation quotes paths and error messages that exist.

A message contains example values where the sources have a placeholder. Every other word of it must be
the constant part of a string in the sources that matches the message.
"""

import ast
import functools
import itertools
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

PATH = re.compile(r"[\w.*<>{},-]+(/[\w.*<>{},-]+)*/?")
SUFFIXES = {".cc", ".cu", ".cuh", ".h", ".md", ".py", ".sh", ".sv", ".transcript"}
# Files that a how-to creates, and files of other projects.
ELSEWHERE = ("*block_int8*", "src/collective/star.cc", "memoryctrl.cc", "pcie_controller.cc",
             "hwy/foreach_target.h")

SOURCES = ("src/*.cc", "src/*.h", "cuda/*.cc", "cuda/*.h", "python/csrc/*.cc", "python/csrc/*.h",
           "python/neuron_fabric/*.py", "tools/*.cc")


@functools.cache
def files() -> list[str]:
    """All files of the repository, without build outputs."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


@functools.cache
def folders() -> set[str]:
    return {str(folder) for name in files() for folder in Path(name).parents} - {"."}


@functools.cache
def paths() -> set[str]:
    return {*files(), *folders()}


def quoted(text: str) -> list[str]:
    """The code spans outside code blocks."""
    return re.findall(r"`([^`\n]+)`", CODE_BLOCK.sub("", text))


# Paths.


def quoted_paths(text: str) -> list[str]:
    """The words of code spans, such as commands, that are below a folder of the repository or have the
    suffix of a source file."""
    words = {word for span in quoted(text) for word in re.split(r"[\s:=]+", span) if PATH.fullmatch(word)}
    return sorted(word for word in words if
                  ("/" in word and word.split("/")[0] in folders()) or Path(word).suffix in SUFFIXES)


def patterns(path: str) -> list[str]:
    """<name> and NAME match any text; a.{h,cc} is two files."""
    path = re.sub(r"<\w+>|\b[A-Z]{2,}\b(?!\.md)", "*", path).rstrip("/")
    choices = [part.split(",") for part in re.split(r"\{([^}]*)\}", path)[1::2]]
    rest = re.split(r"\{[^}]*\}", path)
    return ["".join(itertools.chain(*itertools.zip_longest(rest, chosen, fillvalue="")))
            for chosen in itertools.product(*choices)]


def exists(path: str) -> bool:
    """A path may omit leading folders, as an #include does."""
    return all(any(fnmatchcase(found, pattern) or fnmatchcase(found, f"*/{pattern}") for found in paths())
               for pattern in patterns(path))


def missing_paths(text: str) -> list[str]:
    return [path for path in quoted_paths(text)
            if not exists(path) and not any(fnmatchcase(path, other) for other in ELSEWHERE)]


# Messages.

GAP = "\0"  # any text
AROUND = " ,;:()"
CPP_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
CPP_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*')
# A word that is an example value: with digits, in quotes, or with `...`; N; the name of an error code.
EXAMPLE = re.compile(r"'\S+|\S*(?:[0-9]|\.\.\.)\S*|\bN\b|\b[a-z]+_[a-z]+:")
# Between two literals of c10::str() or of a sum.
CPP_VALUE = re.compile(r"\s*[,+:][^\";{}]*\s*")


def cpp_strings(text: str) -> Iterator[str]:
    """The literals, with a gap for each {}; also joined with a gap for the values between them."""
    text = CPP_COMMENT.sub(lambda found: found[1] or "", text)
    joined, end = "", None
    for found in CPP_LITERAL.finditer(text):
        literal = re.sub(r"\{[^{}]*\}", GAP, found[1]).replace('\\"', '"').replace("\\n", "\n")
        between = "" if end is None else text[end:found.start()]
        if end is not None and not between.strip():
            joined += literal
        elif end is not None and CPP_VALUE.fullmatch(between):
            joined += GAP + literal
        else:
            yield joined
            joined = literal
        yield literal
        end = found.end()
    yield joined


def python_strings(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{[^{}]*\}", GAP, node.value)
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)


@functools.cache
def strings() -> dict[str, set[str]]:
    """By source file."""
    return {name: set((python_strings if name.endswith(".py") else cpp_strings)((ROOT / name).read_text()))
            for name in files() if any(fnmatchcase(name, pattern) for pattern in SOURCES)}


def quoted_messages(text: str) -> list[str]:
    """The first column of tables of messages, and other spans of three words that are no commands."""
    tables = re.findall(r"^\| message \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [row.split(" | ")[0] for table in tables for row in table.splitlines()]
    first = {message for cell in cells for message in quoted(cell)}
    return sorted(first | {span for span in quoted(text)
                           if span.count(" ") >= 2 and not re.search(r"=|\$|--", span)})


def word_count(text: str) -> int:
    return len(re.findall("[A-Za-z_]{2,}", text))


@functools.cache
def templates() -> list[tuple[str, list[str]]]:
    """The source file and the constant parts of every string, without surrounding punctuation."""
    return [(name, [part.strip(AROUND) for part in template.split(GAP) if part.strip(AROUND)])
            for name, found in strings().items() for template in sorted(found)]


def find_parts(parts: list[str], message: str) -> list[tuple[int, int]]:
    """The places of the parts in the message, in this order; empty if one is missing."""
    places, at = [], 0
    for part in parts:
        begin = message.find(part, at)
        if begin < 0:
            return []
        at = begin + len(part)
        places.append((begin, at))
    return places


def unknown_words(message: str) -> list[str]:
    """The words, except example values, that no matching string contains."""
    known = [False] * len(message)

    def mark(begin: int, end: int) -> None:
        known[begin:end] = [True] * (end - begin)

    def mark_word(part: str) -> bool:
        if part not in message:
            return False
        places = [found.span() for found in re.finditer(rf"(?<!\w){re.escape(part)}(?!\w)", message)]
        for place in places:
            mark(*place)
        return bool(places)

    # Between example values: words with digits or quotes, and `...`.
    chunks = [chunk.strip(AROUND) for chunk in EXAMPLE.split(message)]
    chunks = [chunk for chunk in chunks if word_count(chunk) >= 2]
    sources = set()
    for name, parts in templates():
        matches = [mark_word(part) for part in parts if word_count(part) >= 2]
        matches += [mark_word(chunk) for chunk in chunks if any(chunk in part for part in parts)]
        if sum(map(word_count, parts)) >= 2:
            places = find_parts(parts, message)
            for place in places:
                mark(*place)
            matches.append(bool(places))
        if any(matches):
            sources.add(name)
    # A value may be a word of the same source.
    for name, parts in templates():
        if name in sources:
            for part in parts:
                mark_word(part)
    return [word[0] for word in re.finditer(r"\S+", message)
            if not EXAMPLE.fullmatch(word[0])
            and any(not known[at] and message[at].isalpha() for at in range(*word.span()))]



PAGES = [name for name in files() if fnmatchcase(name, "docs/*.md")]
MESSAGES = quoted_messages((ROOT / "docs/errors.md").read_text())


@pytest.mark.parametrize("page", PAGES)
def test_quoted_paths_exist(page):
    assert missing_paths((ROOT / page).read_text()) == []


@pytest.mark.parametrize("message", MESSAGES)
def test_quoted_messages_are_those_of_the_sources(message):
    assert unknown_words(message) == []


def test_the_pages_quote_paths_and_messages():
    assert "src/collective/topology.cc" in {path for page in PAGES
                                            for path in quoted_paths((ROOT / page).read_text())}
    assert len(MESSAGES) > 50


@pytest.mark.parametrize("text", ["src/collective/nothing.cc", "nothing_test.cc", "tests/nothing/*.cc",
                                  "scripts/nothing.sh arm", "src/codec/super_group_codec.{h,cu}"])
def test_a_path_that_does_not_exist_is_found(text):
    assert missing_paths(f"See `{text}`.") == [text.split()[0]]


@pytest.mark.parametrize("text", ["src/collective/", "neuron_fabric/codec.h", "codec_*_test.cc",
                                  "src/codec/super_group_codec.{h,cc}", "tests/golden/<codec>.txt",
                                  "RUN_DIR/report.html", "result.json"])
def test_other_paths_are_accepted(text):
    assert missing_paths(f"See `{text}`.") == []


@pytest.mark.parametrize(("message", "is_known"), [
    ("rank 2 is gone", True),
    ("rank 2 is lost", False),
    ("frame of epoch 7, expected 8", True),
    ("frame of epoch 7, wanted 8", False),
    ("rank 0 has value count 900, rank 2 has 901", True),
    ("rank 0 has part 1, rank 2 has 2", False),
    ("no CUDA gadget: ...", False)])
def test_a_message_that_no_source_contains_is_found(message, is_known):
    assert (unknown_words(message) == []) is is_known
