"""nf compare: the runs that it makes, reuse of finished runs, and error messages."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import forked_python
import pytest
from neuron_fabric_lab.compare import jobs
from neuron_fabric_lab.compare.__main__ import chosen_routes, main, train_arguments
from neuron_fabric_lab.compare.jobs import make_jobs
from neuron_fabric_lab.train.checkpoint import OtherRun
from workers.job import free_port

pytestmark = pytest.mark.skipif(importlib.util.find_spec("neuron_fabric._C") is None,
                                reason="the extension neuron_fabric._C is not built")
PROFILE = Path(__file__).resolve().parents[2] / "bench" / "profiles" / "gpt_calibrated.json"
WORDS = ["hostile", "--ranks", "1", "--steps", "10", "--eval-every", "5", "--routes", "plain,plain_bf16",
         "--seeds", "1"]


@pytest.fixture
def forked_runs(monkeypatch):
    """Runs start with PyTorch loaded."""
    monkeypatch.setattr(sys, "executable", forked_python.executable())
    for name, value in forked_python.environment().items():
        monkeypatch.setenv(name, value)


def test_default_baselines_are_added_unless_one_is_named():
    assert chosen_routes(Namespace(routes="g_binary,g_binary", baseline=None)) == [
        "fp32", "bf16", "g_binary"]
    assert chosen_routes(Namespace(routes="plain,plain_bf16", baseline=None)) == ["plain", "plain_bf16"]
    assert chosen_routes(Namespace(routes="default", baseline="plain_bf16")) == ["plain_bf16", "default"]


def test_runs_of_one_seed_differ_only_in_their_route(tmp_path):
    made = make_jobs(tmp_path, ["fp32", "waterfill:4"], 2, ["digits", "--ranks", "2"])
    assert [(job.route, job.seed) for job in made] == [
        ("fp32", 1), ("waterfill:4", 1), ("fp32", 2), ("waterfill:4", 2)]
    one, other = (job.options().identity() for job in made[:2])
    assert {key for key in one if one[key] != other[key]} == {"route"}
    assert len({job.out for job in made}) == 4


def test_runs_are_made_once_and_compared(tmp_path, capsys, forked_runs):
    assert main([*WORDS, "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "plain_bf16" in output
    assert "exposed" in output
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    before = (tmp_path / "plain-seed1" / "result.json").stat().st_mtime_ns
    assert main([*WORDS, "--out", str(tmp_path), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["route"] for row in rows] == ["plain", "plain_bf16"]
    assert (tmp_path / "plain-seed1" / "result.json").stat().st_mtime_ns == before
    result = json.loads((tmp_path / "plain-seed1" / "result.json").read_text())
    (tmp_path / "plain-seed1" / "result.json").write_text(json.dumps(result | {"diverged": True}))
    assert main([*WORDS, "--out", str(tmp_path), "--table"]) == 1
    assert "hostile diverges on the baseline plain (seed 1" in capsys.readouterr().err


def test_runs_on_a_shared_machine_have_no_times_in_any_output(tmp_path, capsys, forked_runs):
    words = [*WORDS, "--target-loss", "100", "--out", str(tmp_path)]
    assert main([*words, "--side-by-side", "2"]) == 0
    assert main([*words, "--table"]) == 0
    both = capsys.readouterr().out
    assert both.count("times are omitted: 2 of 2 runs shared the machine with others") == 2
    for word in ("exposed", "time / ", "reaches the target"):
        assert word not in both
    assert main([*words, "--table", "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "rows.jsonl").read_text()
    for row in map(json.loads, printed.splitlines()):
        assert row["steps_to_target"] == 5
        assert [row[key] for key in ("step_seconds", "exposed_seconds", "seconds_to_target")] == [None] * 3

    # Results of earlier versions do not contain it.
    for file in tmp_path.glob("*/result.json"):
        result = json.loads(file.read_text())
        assert result.pop("shared_machine")
        file.write_text(json.dumps(result))
    assert main([*words, "--table", "--side-by-side", "2"]) == 0
    assert "exposed" not in capsys.readouterr().out
    assert main([*words, "--table"]) == 0
    assert "exposed" in capsys.readouterr().out


def test_a_launcher_starts_the_ranks_and_is_part_of_the_command(tmp_path, forked_runs):
    launcher = ("env RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 "
                f"MASTER_PORT={free_port()} GLOO_SOCKET_IFNAME=lo")
    assert main([*WORDS, "--baseline", "plain", "--routes", "plain", "--launcher", launcher,
                 "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "plain-seed1" / "result.json").read_text())
    assert result["command"].startswith(f"{launcher} nf train hostile ")


def test_runs_of_another_launcher_are_rejected(tmp_path, capsys):
    words = [*WORDS, "--baseline", "plain", "--routes", "plain", "--out", str(tmp_path)]
    job, = make_jobs(tmp_path, ["plain"], 1, WORDS[:7])
    job.out.mkdir()
    kept = {"options": job.options().identity(), "command": "slow --rate '1 gbit' -- nf train hostile"}
    for file, more in (("state.json", {"step": 3}), ("result.json", {"finished": True})):
        (job.out / file).write_text(json.dumps(kept | more))
        assert main(words) == 1
        errors = capsys.readouterr().err
        assert """has a run that was started by "slow --rate '1 gbit' --", not""" in errors
        assert "not without a --launcher; use another --out" in errors
        replace(job, launcher=("slow", "--rate", "1 gbit", "--")).check_kept()
        (job.out / file).write_text(json.dumps(kept | more | {"command": "nf train hostile"}))
        job.check_kept()
        with pytest.raises(OtherRun, match='without a --launcher, not by "slow"'):
            replace(job, launcher=("slow",)).check_kept()
        (job.out / file).unlink()


def test_invalid_input_is_reported(tmp_path, capsys):
    out = ["--out", str(tmp_path / "out")]
    assert main(["hostile", "--routes", "fp32,waterfal:4", *out]) == 2
    assert "waterfal" in capsys.readouterr().err
    assert main(["hostile", "--size", "huge", *out]) == 2
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(PROFILE, tmp_path / name / "same.json")
    both = ",".join(f"profile:{tmp_path / name}/same.json" for name in ("a", "b"))
    assert main(["hostile", "--routes", both, *out]) == 2
    assert "would both be stored in" in capsys.readouterr().err
    assert main([*WORDS, "--table", *out]) == 1
    assert "no finished run" in capsys.readouterr().err


def test_job_options_are_passed_to_nf_train():
    options = Namespace(workload="sst2", size="tiny", data="a b", ranks=2, steps=None, epochs=1.5, batch=None,
                        device="cpu", admit="safe", eval_every=5)
    assert train_arguments(options) == ["sst2", "--size", "tiny", "--data", "a b", "--ranks", "2", "--epochs",
                                        "1.5", "--device", "cpu", "--admit", "safe", "--eval-every", "5"]


@pytest.fixture
def started(monkeypatch):
    """Replaces runs by sleeping processes; calls `then` as each one starts. They ignore SIGINT, as
    background processes of a script do."""
    processes = []

    def replace(then):
        def start(job):
            process = subprocess.Popen(["env", "--ignore-signal=INT", "sleep", "600"],
                                       start_new_session=True)
            processes.append(process)
            then(job)
            return process
        monkeypatch.setattr(jobs, "_start", start)
        return processes

    yield replace
    for process in processes:
        process.kill()


@pytest.fixture
def handled(number):
    """Installs a handler for the signal first, since the parent process may ignore the signal."""
    def handler(*_):
        pass

    before = signal.signal(number, handler)
    yield handler
    signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_runs_and_prints_how_to_resume(tmp_path, capsys, started, handled, number):
    runs = started(lambda job: job.route == "plain_bf16" and os.kill(os.getpid(), number))
    assert main([*WORDS, "--side-by-side", "2", "--out", str(tmp_path)]) == 128 + number
    assert [run.returncode for run in runs] == [-signal.SIGTERM, -signal.SIGTERM]
    errors = capsys.readouterr().err
    assert f"ended by {number.name}; finished runs are kept in {tmp_path}; the same command" in errors
    assert signal.getsignal(number) is handled


def test_a_failure_ends_the_other_runs(tmp_path, capsys, started):
    def fail(job):
        if job.route == "plain_bf16":
            raise OSError("no more processes")

    runs = started(fail)
    assert main([*WORDS, "--side-by-side", "2", "--out", str(tmp_path)]) == 1
    assert runs[0].returncode == -signal.SIGTERM
    assert "nf compare: no more processes" in capsys.readouterr().err
