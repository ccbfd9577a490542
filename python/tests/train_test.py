"""nf train: its results, resumption, and error messages."""

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import forked_python
import pytest
from neuron_fabric_lab.train.__main__ import main
from neuron_fabric_lab.train.options import TrainOptions, file_name, parse
from neuron_fabric_lab.train.result import differing
from neuron_fabric_lab.train.traffic import Traffic

pytestmark = pytest.mark.skipif(importlib.util.find_spec("neuron_fabric._C") is None,
                                reason="the extension neuron_fabric._C is not built")
STEPS = 50
COMMON = ("--steps", str(STEPS), "--route", "fp32")


def words(out, *options):
    return ["hostile", "--ranks", "2", "--out", str(out), *options]


@dataclass
class Done:
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def train():
    """Runs nf train in this process; its ranks are separate processes."""
    def call(*arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(list(arguments))
            except SystemExit as end:
                code = end.code
        return Done(code, out.getvalue(), err.getvalue())
    return call


@pytest.fixture(scope="module", autouse=True)
def ranks_find_the_package():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        for name, value in forked_python.environment().items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def whole(train, tmp_path_factory):
    """An uninterrupted run. Sums of two ranks at full precision do not depend on buckets, which DDP
    rebuilds."""
    folder = tmp_path_factory.mktemp("whole")
    assert train(*words(folder, *COMMON, "--json")).code == 0
    return folder


def result(folder):
    return json.loads((folder / "result.json").read_text())


def test_a_resumed_run_has_the_bits_of_an_uninterrupted_run(train, whole, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NF_SHARED_MACHINE", "1")
        patch.setenv("NF_COMMIT", "abc")
        stopped = train(*words(tmp_path, *COMMON, "--seconds", "0.001", "--json"))
    assert stopped.code == 0
    assert f"of {STEPS} steps done; the same command continues" in stopped.err
    assert 0 < json.loads(stopped.out)["steps"] < STEPS
    other = train(*words(tmp_path, *COMMON, "--seed", "2", "--json"))
    assert other.code == 1
    assert "has a run with another seed; remove the folder" in other.err
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NF_COMMIT", "def")
        assert train(*words(tmp_path, *COMMON, "--json")).code == 0

    at_once, parts = result(whole), result(tmp_path)
    assert len(at_once["losses"]) == STEPS
    assert parts["losses"] == at_once["losses"]
    assert parts["accuracy"] == at_once["accuracy"]
    assert parts["bytes"] == at_once["bytes"]
    assert [point["step"] for point in parts["curve"]] == [point["step"] for point in at_once["curve"]]
    assert not (tmp_path / "state").exists(), "a finished run needs no checkpoint"
    assert parts["commit"] == "abc, def", "the commits of both parts"
    assert (parts["shared_machine"], at_once["shared_machine"]) == (True, False), "of the first part"
    assert "the run shared the machine with other runs" in train(*words(tmp_path, *COMMON)).out


def test_a_result_has_its_figures_and_the_command_to_reproduce_it(whole):
    whole = result(whole)
    assert whole["accuracy"] > 2 / 32
    assert whole["losses"][-1] < whole["losses"][0]
    assert whole["curve"][-1]["step"] == STEPS
    assert whole["curve"][-1]["seconds"] == pytest.approx(whole["seconds"])
    assert whole["bytes_ratio"] == pytest.approx(1)
    assert whole["bytes"] == pytest.approx(4 * whole["parameters"])  # sent by each of two ranks
    assert whole["exposed_seconds"] <= whole["step_seconds"]
    assert "nf train hostile --ranks 2" in whole["command"]
    assert {"processor", "cores"} <= whole["machine"].keys()
    assert whole["versions"]["torch"]


def test_a_finished_run_is_not_repeated(train, whole):
    file = whole / "result.json"
    before = file.stat().st_mtime_ns
    again = train(*words(whole, *COMMON))
    assert again.code == 0
    assert "of its contributions" in again.out
    assert file.stat().st_mtime_ns == before


def test_a_finished_run_reports_the_files_it_lacks(train, whole, tmp_path):
    record = tmp_path / "buckets.json"
    again = train(*words(whole, *COMMON, "--run-dir", str(tmp_path / "run"), "--record", str(record)))
    assert again.code == 0
    assert "is already finished and does not run again" in again.err
    assert f"no {tmp_path / 'run' / 'rank0.jsonl'} and no {record}; use another --out" in again.err
    record.touch()
    assert "finished" not in train(*words(whole, *COMMON, "--record", str(record))).err


def test_a_target_is_an_accuracy_or_a_loss(train, whole):
    before = result(whole)
    best = min(before["curve"], key=lambda point: point["loss"])
    met = json.loads(train(*words(whole, *COMMON, "--json", "--target-loss", str(best["loss"]))).out)
    assert met["target"] == {"loss": best["loss"]}
    assert (met["steps_to_target"], met["seconds_to_target"], met["bytes_to_target"]) == (
        best["step"], best["seconds"], best["bytes"])
    output = train(*words(whole, *COMMON, "--target-loss", "1000")).out
    assert f"a loss of 1,000 after {before['curve'][0]['step']} steps, " in output
    assert "an accuracy of 100.00 % not reached" in train(*words(whole, *COMMON, "--target", "1")).out
    assert result(whole) == before, "a target is asked of a run, not part of it"


def test_an_interrupted_run_reports_what_is_saved(tmp_path):
    running = subprocess.Popen([forked_python.executable(), "-m", "neuron_fabric_lab.train",
                                *words(tmp_path, "--steps", "100000", "--route", "plain")],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    running.stdout.readline()  # the ranks have started
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 128 + signal.SIGINT
    assert "interrupted; 0 steps are saved" in errors


@pytest.mark.parametrize(("options", "message"), [
    (["--route", "waterfal:4"], "waterfal"), (["--route", "profile:nowhere.json"], "no profile"),
    (["--size", "huge"], "hostile has no size huge; it has tiny"), (["--steps", "0"], "above 0"),
    (["--target", "40"], "an accuracy must be a fraction, not 40"), (["--target-loss", "-1"], "above 0"),
    (["--target", "0.5", "--target-loss", "1"], "not allowed with"),
    (["--steps", "1", "--epochs", "2"], "not allowed with"), (["--device", "tpu"], "invalid choice")])
def test_invalid_train_options_are_reported(train, tmp_path, options, message):
    done = train(*words(tmp_path, *options))
    assert done.code == 2
    assert message in done.err


def test_missing_data_is_reported(train, tmp_path):
    done = train("cifar10", "--data", str(tmp_path), "--ranks", "1", "--out", str(tmp_path / "out"))
    assert done.code == 1
    assert "has no train images of cifar10" in done.err


def test_traffic_adds_up_over_the_parts_of_a_run():
    region = {"name": "all", "steps": 2, "low_bit_steps": 1, "bytes": 10, "dense_bytes": 40,
              "up_bytes": 4, "fallbacks": 0}
    part = Traffic(2, 10, 40, 4, [region], [{"step": 1}])
    both = part.after(part)
    assert (both.steps, both.bytes, both.dense_bytes, both.up_bytes) == (4, 20, 80, 8)
    assert both.bytes_ratio == 0.25
    assert both.bytes_up_ratio == 0.2
    assert both.regions[0]["low_bit_steps"] == 2
    assert len(both.fallbacks) == 2
    assert part.after(Traffic()).bytes_up_ratio == 0.2


def test_routes_have_file_names_and_profiles_an_identity(tmp_path):
    assert file_name("waterfill:3+ef") == "waterfill_3_ef"
    assert file_name("profile:a/b.json") == "profile_b"
    profile = tmp_path / "b.json"
    identities = []
    for text in ("{}", "{} "):
        profile.write_text(text)
        options = parse(["digits", "--route", f"profile:{profile}"], ["digits"])
        identities.append(options.identity())
    assert identities[0] != identities[1]


def test_runs_evaluated_at_other_steps_are_other_runs(tmp_path):
    usual, often = (TrainOptions("digits", tmp_path, eval_every=steps).identity() for steps in (None, 5))
    assert differing(usual, often) == ["eval_every"]
    older = {key: value for key, value in usual.items() if key != "eval_every"}
    assert differing(older, usual) == []


def test_runs_on_other_data_are_other_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    full, again, part, none = (TrainOptions("cifar10", tmp_path, data=data).identity()
                               for data in (tmp_path / "full", Path("a/../full"), tmp_path / "part", None))
    assert full == again
    assert differing(full, part) == differing(full, none) == ["data"]
    assert "data" not in none
