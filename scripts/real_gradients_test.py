"""real_gradients.sh measures every file; real_gradients_table.py judges the results."""

import json
import os
import subprocess
from itertools import product
from pathlib import Path

import pytest
import real_gradients_table as table

SCRIPT = Path(__file__).parent / "real_gradients.sh"
DUMPS = ["gpt_500", "gpt_50"]


def results(changes=None, ranks=8):
    """The lines of a run that passes, except for the errors in `changes`."""
    errors = {"dynamiq:4": 0.1, "waterfill:4": 0.03, "dynamiq:5": 0.03, "waterfill:5": 0.015}
    for dump, topology, (codec, error) in product(DUMPS, table.TOPOLOGIES, errors.items()):
        error = (changes or {}).get((dump, codec, topology), error)
        yield json.dumps({"gradients": f"dumps/{dump}.npy", "codec": codec, "topology": topology,
                          "ranks": ranks, "bits": 4.01, "vnmse": error, "parameter_vnmse": error})


def run_table(tmp_path, capsys, lines):
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join(lines))
    status = table.main([str(path)])
    return status, capsys.readouterr()


def test_the_tables_have_every_error_and_every_ratio(tmp_path, capsys):
    status, printed = run_table(tmp_path, capsys, results())
    assert status == 0
    lines = printed.out.splitlines()
    assert lines[0] == "| ranks | topology | codec | bits | gpt_50 | gpt_500 |"
    assert r"| 8 | tree | waterfill:5 | 4.01 | 0.015 \| 0.015 | 0.015 \| 0.015 |" in lines
    assert ("| 8 | waterfill:5 ring / dynamiq:5 ring | vnmse | 0.500 | 0.500 | 0.65 | pass |"
            in lines)
    assert ("| 8 | waterfill:4 direct / dynamiq:5 ring | parameter_vnmse | 1.000 | 1.000 | 1.15 "
            "| pass |" in lines)
    assert "FAIL" not in printed.out


@pytest.mark.parametrize("codec, topology, error, failures", [
    ("waterfill:5", "ring", 0.0196, 2),  # 0.653 by both
    ("waterfill:5", "tree", 0.0194, 0),  # 0.647
    ("waterfill:4", "tree", 0.05, 1),  # 0.5: too large for parameter_vnmse only
    ("waterfill:4", "ring", 0.071, 2),
    ("waterfill:4", "direct", 0.0348, 2),  # 1.16 of dynamiq:5 over a ring
    ("waterfill:5", "direct", 0.03, 0),  # reported, not judged
    ("waterfill:5", "ring", float("nan"), 2),
])
def test_a_ratio_above_its_limit_fails(tmp_path, capsys, codec, topology, error, failures):
    status, printed = run_table(tmp_path, capsys, results({("gpt_50", codec, topology): error}))
    assert printed.out.count("FAIL") == failures
    assert status == (1 if failures else 0)


def test_other_numbers_of_ranks_are_not_judged(tmp_path, capsys):
    worse = {("gpt_50", "waterfill:4", "direct"): 0.3}
    status, printed = run_table(tmp_path, capsys, [*results(worse, ranks=4), *results()])
    assert status == 0
    line = "| 4 | waterfill:4 direct / dynamiq:5 ring | vnmse | 10.000 | 1.000 |  |  |"
    assert line in printed.out.splitlines()
    status, _ = run_table(tmp_path, capsys, results(ranks=4))
    assert status == 1  # nothing was judged


def test_missing_results_do_not_pass(tmp_path, capsys):
    status, printed = run_table(tmp_path, capsys, list(results())[1:])
    assert status == 1
    assert "MISSING" in printed.out


def test_a_later_result_replaces_an_earlier_one(tmp_path, capsys):
    changes = {("gpt_50", "waterfill:5", "ring"): 1.0}
    status, _ = run_table(tmp_path, capsys, [*results(changes), *results()])
    assert status == 0


@pytest.mark.parametrize("lines, words", [
    ([], "the file has no results"),
    (["{"], "line 1 is not a result"),
    (['{"gradients": "gpt_50"}'], "line 1 is not a result"),
])
def test_malformed_files_are_rejected(tmp_path, capsys, lines, words):
    status, printed = run_table(tmp_path, capsys, lines)
    assert status == 2
    assert words in printed.err


def run_script(tmp_path, program, *ranks):
    nf = tmp_path / "nf"
    nf.write_text("#!/usr/bin/env bash\n" + program)
    nf.chmod(0o755)
    out = tmp_path / "results.jsonl"
    ran = subprocess.run([SCRIPT, tmp_path, nf, out, *ranks], capture_output=True, text=True,
                         env={**os.environ, "JOBS": "2"}, check=False)
    lines = out.read_text().splitlines() if out.exists() else []
    return ran, [json.loads(line) for line in lines]


def test_the_script_measures_each_file(tmp_path):
    for name in ("gpt_50", "resnet_20"):
        (tmp_path / f"{name}.npy").touch()
    # quality --gradients FILE --ranks N --topology T ...
    echo = """[[ $1 == quality && $2 == --gradients && -f $3 ]] || exit 2
              echo "[\\"$3\\", $5, \\"$7\\"]\""""
    ran, lines = run_script(tmp_path, echo, "8", "4")
    assert ran.returncode == 0, ran.stderr
    files = [str(tmp_path / f"{name}.npy") for name in ("gpt_50", "resnet_20")]
    assert {tuple(line) for line in lines} == set(product(files, [8, 4], table.TOPOLOGIES))
    assert len(lines) == 12


def test_the_script_continues_after_a_failure_and_reports_it(tmp_path):
    (tmp_path / "gpt_50.npy").touch()
    ran, lines = run_script(tmp_path, "[[ $7 != tree ]] && echo '{\"a\": 1}'")
    assert ran.returncode != 0
    assert "gpt_50.npy, 8 ranks, tree" in ran.stderr
    assert lines == [{"a": 1}] * 2


def test_the_script_rejects_an_empty_directory(tmp_path):
    ran, lines = run_script(tmp_path, "true")
    assert ran.returncode == 2
    assert "no .npy file" in ran.stderr
    assert lines == []
