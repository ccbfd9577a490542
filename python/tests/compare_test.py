"""nf compare: what it makes of several runs, that it keeps what is done, and what it says of trouble."""

import importlib.util
import json
import os
import signal
import subprocess
from argparse import Namespace

import pytest
from neuron_fabric.compare import figures, intervals, jobs, page, words
from neuron_fabric.compare.__main__ import chosen_routes, main, passed_on
from neuron_fabric.compare.jobs import make_jobs

pytestmark = pytest.mark.skipif(importlib.util.find_spec("neuron_fabric._C") is None,
                                reason="the extension neuron_fabric._C is not built")
WORDS = ["hostile", "--ranks", "1", "--steps", "10", "--eval-every", "5", "--routes", "plain,plain_bf16",
         "--seeds", "1"]


def run(route, seed, accuracy, seconds=10.0, **changes):
    curve = [{"step": 5, "seconds": seconds / 2, "bytes": 10, "accuracy": accuracy / 2, "loss": 2.0},
             {"step": 10, "seconds": seconds, "bytes": 20, "accuracy": accuracy, "loss": 1.0}]
    return {"workload": "digits", "size": "tiny", "route": route, "seed": seed, "ranks": 2,
            "accuracy": accuracy, "loss": 1.0, "bytes": 2.0, "bytes_ratio": 0.5, "bytes_up_ratio": 0.25,
            "step_seconds": 0.1, "exposed_seconds": 0.05, "curve": curve, "diverged": False, "fallbacks": [],
            "finished": True, "parameters": 100, "steps": 10, "batch": 4, "commit": "abc", "command":
            "nf train digits", "machine": {"processor": "a processor", "cores": 2},
            "versions": {"torch": "2.11"}} | changes


RUNS = [run("fp32", 1, 0.90), run("fp32", 2, 0.92), run("bf16", 1, 0.90), run("bf16", 2, 0.92),
        run("g_binary", 1, 0.80, 4.0), run("g_binary", 2, 0.83, 4.0),
        run("waterfill:4", 1, 0.905, 5.0), run("waterfill:4", 2, 0.921, 5.0)]


def test_differences_are_paired_and_have_students_interval():
    difference = intervals.paired({1: 3.0, 2: 5.0, 3: 7.0, 9: 0.0}, {1: 1.0, 2: 2.0, 3: 3.0})
    assert difference.mean == pytest.approx(3)
    assert difference.high == pytest.approx(3 + 2.920 / 3**0.5)
    assert difference.low == pytest.approx(3 - 2.920 / 3**0.5)
    assert intervals.paired({1: 2.0}, {1: 1.0}) == intervals.Difference(1.0)
    assert intervals.paired({1: 2.0}, {2: 1.0}) is None


@pytest.mark.parametrize(("freedom", "t"), [(1, 6.314), (2, 2.920), (5, 2.015), (10, 1.812), (20, 1.725),
                                            (21, 1.721), (30, 1.697), (100, 1.660), (10**6, 1.645)])
def test_intervals_are_students_at_every_number_of_pairs(freedom, t):
    assert intervals.t95(freedom) == pytest.approx(t, abs=5e-4)


def test_the_figures_of_a_route():
    target = figures.usual_target(RUNS)
    assert target == pytest.approx(0.905)
    rows = {row.route: row for row in figures.figures(RUNS, "fp32", target)}
    assert rows["fp32"].difference is None
    assert rows["g_binary"].difference.mean == pytest.approx(-0.095)
    assert rows["g_binary"].reached == 0
    assert rows["fp32"].reached == 1
    assert rows["fp32"].seconds_to_target is None
    assert rows["waterfill:4"].seconds_to_target == 5


def test_the_table_and_what_it_says_beside_bf16():
    rows = figures.figures(RUNS, "fp32", 0.9)
    lines = words.table(rows).splitlines()
    assert len(lines) == 5
    assert "-9.50" in lines[3]
    assert "never" in lines[3]
    assert words.beside_bf16(rows) == [
        "fp32 is not better than bf16: it takes 1.00 x as long to the target",
        "g_binary is not better than bf16: 0 of 2 runs came to the target",
        "waterfill:4 is at the target 2.00 x sooner than bf16"]
    row = json.loads(words.json_lines(RUNS, 0.9).splitlines()[-1])
    assert set(row) == set(words.KEYS)
    assert row["seconds_to_target"] == 5


def test_fallbacks_are_told():
    fallen = run("default", 1, 0.9, fallbacks=[{"step": 7, "reason": "norm_spike"}])
    assert words.fallbacks([*RUNS, fallen, run("default", 2, 0.9)]) == [
        "default fell back in 1 of 2 runs, first at step 7: norm_spike"]


def test_baselines_join_unless_one_is_named():
    assert chosen_routes(Namespace(routes="g_binary,g_binary", baseline=None)) == [
        "fp32", "bf16", "g_binary"]
    assert chosen_routes(Namespace(routes="plain,plain_bf16", baseline=None)) == ["plain", "plain_bf16"]
    assert chosen_routes(Namespace(routes="default", baseline="plain_bf16")) == ["plain_bf16", "default"]


def test_runs_of_a_seed_differ_in_their_route_alone(tmp_path):
    made = make_jobs(tmp_path, ["fp32", "waterfill:4"], 2, ["digits", "--ranks", "2"])
    assert [(job.route, job.seed) for job in made] == [
        ("fp32", 1), ("waterfill:4", 1), ("fp32", 2), ("waterfill:4", 2)]
    one, other = (job.options().identity() for job in made[:2])
    assert {key for key in one if one[key] != other[key]} == {"route"}
    assert len({job.out for job in made}) == 4


def test_a_page_has_tables_pictures_and_where_they_come_from(tmp_path):
    folder = tmp_path / "results" / "small"
    folder.mkdir(parents=True)
    for number, result in enumerate(RUNS):
        (folder / f"{number}.json").write_text(json.dumps(result))
    (tmp_path / "results" / "empty").mkdir()
    made = tmp_path / "results.md"
    folders = [folder, tmp_path / "results" / "empty"]
    assert page.make_page(folders, made, tmp_path / "img") == ["empty"]
    text = made.read_text()
    assert "## small: digits (tiny), 2 ranks" in text
    assert "| `g_binary` | 2 |" in text
    assert "a processor, 2 cores, PyTorch 2.11. Commit: abc" in text
    assert "](img/results_small.svg)" in text
    assert "<svg" in (tmp_path / "img" / "results_small.svg").read_text()
    (folder / "9.json").write_text("{half")
    with pytest.raises(page.PageError, match="9.json"):
        page.make_page(folders, made, tmp_path / "img")


def test_runs_are_made_once_and_compared(tmp_path, capsys):
    assert main([*WORDS, "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "plain_bf16" in told
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    before = (tmp_path / "plain-seed1" / "result.json").stat().st_mtime_ns
    assert main([*WORDS, "--out", str(tmp_path), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["route"] for row in rows] == ["plain", "plain_bf16"]
    assert (tmp_path / "plain-seed1" / "result.json").stat().st_mtime_ns == before

    result = json.loads((tmp_path / "plain-seed1" / "result.json").read_text())
    (tmp_path / "plain-seed1" / "result.json").write_text(json.dumps(result | {"diverged": True}))
    assert main([*WORDS, "--out", str(tmp_path), "--table"]) == 1
    assert "hostile diverges along plain itself (seed 1" in capsys.readouterr().err


def test_bad_input_is_told(tmp_path, capsys):
    out = ["--out", str(tmp_path / "out")]
    assert main(["hostile", "--routes", "fp32,waterfal:4", *out]) == 2
    assert "waterfal" in capsys.readouterr().err
    assert main(["hostile", "--size", "huge", *out]) == 2
    assert main([*WORDS, "--table", *out]) == 1
    assert "no finished run" in capsys.readouterr().err


def test_options_of_the_job_are_passed_on():
    options = Namespace(workload="sst2", size="tiny", data="a b", ranks=2, steps=None, epochs=1.5, batch=None,
                        device="cpu", admit="safe", eval_every=5)
    assert passed_on(options) == ["sst2", "--size", "tiny", "--data", "a b", "--ranks", "2", "--epochs",
                                  "1.5", "--device", "cpu", "--admit", "safe", "--eval-every", "5"]


@pytest.fixture
def started(monkeypatch):
    """Processes in place of runs, of which each does what is asked when it starts."""
    processes = []

    def replace(then):
        def start(job):
            process = subprocess.Popen(["sleep", "600"], start_new_session=True)
            processes.append(process)
            then(job)
            return process
        monkeypatch.setattr(jobs, "_start", start)
        return processes

    yield replace
    for process in processes:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_runs_and_says_how_to_go_on(tmp_path, capsys, started, number):
    before = signal.getsignal(number)
    runs = started(lambda job: job.route == "plain_bf16" and os.kill(os.getpid(), number))
    assert main([*WORDS, "--side-by-side", "2", "--out", str(tmp_path)]) == 128 + number
    assert [run.returncode for run in runs] == [-signal.SIGINT, -signal.SIGINT]
    told = capsys.readouterr().err
    assert f"ended by {number.name}; what is done is kept in {tmp_path}, and the same command" in told
    assert signal.getsignal(number) is before


def test_a_failure_ends_the_other_runs(tmp_path, capsys, started):
    def fail(job):
        if job.route == "plain_bf16":
            raise OSError("no more processes")

    runs = started(fail)
    assert main([*WORDS, "--side-by-side", "2", "--out", str(tmp_path)]) == 1
    assert runs[0].returncode == -signal.SIGINT
    assert "nf compare: no more processes" in capsys.readouterr().err
