"""run_transcript.py accepts what matches, reports what differs and updates only that."""

import pytest
from run_transcript import Line, TranscriptError, main, merge, parse


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a transcript; returns the exit status, the report and the file afterwards."""
    nf = tmp_path / "nf"
    nf.write_text('#!/bin/sh\nprintf "$@"\n')
    nf.chmod(0o755)

    def run_text(text, *options):
        path = tmp_path / "x.transcript"
        path.write_text(text)
        status = main(["--nf", str(nf), *options, str(path)])
        return status, capsys.readouterr().out, path.read_text()

    return run_text


PASSING = """\
# Commands of a case share a shell and a directory.
$ name=file
$ nf 'a\\n\\n12 us\\n' > $name
$ cat $name
| a
|
~ \\d+ us

# A title may have
# two lines, and so may a command.
$ cat <<END >&2
>   indented
>
> END
stderr|   indented
stderr|

# The last command of a case may fail.
$ echo out; echo err >&2; exit 3
| out
stderr~ e+r+
exit 3

# An incomplete last line is visible.
$ nf a
| a (no newline at the end)
"""


def test_what_matches_passes_and_update_keeps_it(run):
    for options in [(), ("--update",)]:
        assert run(PASSING, *options) == (0, "4 cases, 0 failed\n", PASSING)


@pytest.mark.parametrize("wrong, right", [
    ("| b\n", "| a\n"),
    ("", "| a\n"),
    ("| a\n| b\n", "| a\n"),
    ("| a\nstderr| b\n", "| a\n"),
    ("| a\nexit 1\n", "| a\n"),
    ("~ b*\n", "| a\n"),
    ("stderr| a\n", "| a\n"),
])
def test_differences_are_reported_with_their_line_and_updated(run, wrong, right):
    before, after = "# Before.\n$ nf 'x\\n'\n~ [xyz]\n\n", "\n# After.\n$ true\n"
    case = "# Differs.\n$ nf 'a\\n'\n"
    status, report, text = run(before + case + wrong + after)
    assert status == 1
    assert "x.transcript:6: Differs.\n" in report
    assert report.endswith("3 cases, 1 failed\n")
    assert text == before + case + wrong + after
    assert run(before + case + wrong + after, "--update") == (
        0, "3 cases, 0 failed\n", before + case + right + after)


def test_patterns_that_match_survive_an_update():
    expected = [Line("old"), Line(r"\d+ us", True), Line("gone"), Line(r"\d+ ms", True)]
    actual = [Line("new"), Line("5 us"), Line("more"), Line("6 ms")]
    assert merge(expected, actual) == [Line("new"), expected[1], Line("more"), expected[3]]


def test_malformed_patterns_are_rejected():
    with pytest.raises(TranscriptError, match="not a regular expression"):
        merge([Line("(", True)], [Line("a")])


def test_a_failing_command_stops_its_case_only(run):
    text = "# Stops.\n$ false\n$ nf a\n\n# Goes on.\n$ true\n"
    status, report, after = run(text, "--update")
    assert status == 1
    assert "x.transcript:3: not run" in report
    assert "2 cases, 1 failed" in report
    assert after == text


def test_only_the_named_cases_run(run):
    assert run("# First.\n$ true\n\n# Second.\n$ false\n", "-k", "First")[:2] == (
        0, "1 cases, 0 failed\n")


def test_the_environment_is_defined(run, monkeypatch):
    monkeypatch.setenv("NF_FORCE_ISA", "scalar")
    assert run("# A directory with links, and no variables NF_*.\n"
               "$ ls; echo ${NF_FORCE_ISA-unset}\n| data\n| examples\n| unset\n")[0] == 0


@pytest.mark.parametrize("text, line, problem", [
    ("$ true", 1, "a command before the first case"),
    ("# A.\n| x", 2, "output of no command"),
    ("# A.\n> x", 2, "a continuation of no command"),
    ("# A.\n$ true\n| x\n> x", 4, "a continuation of no command"),
    ("# A.\n$ true\nexit ok", 3, "not the exit status of a command"),
    ("# A.\n$ false\nexit 1\n$ true", 4, "a command after one that fails"),
    ("# A.\n$ true\noutput", 3, "not a line of a transcript"),
    ("# A.\n\n# B.\n$ true", 3, "a case after one without commands"),
])
def test_malformed_transcripts_are_rejected(text, line, problem):
    with pytest.raises(TranscriptError, match=f"^x:{line}: {problem}"):
        parse(text.split("\n"), "x")
