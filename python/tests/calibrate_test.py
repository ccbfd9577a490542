"""nf calibrate: options, exit statuses, interruption and resumption."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import forked_python
import neuron_fabric as nf
import pytest
from neuron_fabric_lab import calibrate

needs_extension = pytest.mark.skipif(
    importlib.util.find_spec("neuron_fabric._C") is None,
    reason="the extension neuron_fabric._C is not built")

QUICK = ["digits", "--size", "tiny", "--ranks", "2", "--dense-steps", "6", "--steps", "4",
         "--repeats", "2", "--candidates", "g_binary,waterfill:4"]


@needs_extension
@pytest.mark.parametrize(("options", "words"), [
    ([], "give a workload"),
    (["digit"], "unknown workload digit; known are digits"),
    (["digits", "--size", "vast"], "digits has no size vast"),
    (["digits", "--candidates", "g_binar"], "did you mean 'g_binary'"),
    (["digits", "--candidates", ","], "no candidate"),
    (["digits", "--target", "none"], "a target must be an increase of the loss"),
    (["digits", "--most-bytes", "7"], "most_bytes must be a share"),
    (["digits", "--ranks", "1"], "1 is less than 2"),
    (["digits", "--batch", "0"], "0 is less than 1"),
    (["digits", "--steps", "few"], "invalid"),
    (["--update", "run"], "--update needs the profile")])
def test_invalid_options_exit_with_status_2(options, words, capsys):
    with pytest.raises(SystemExit) as end:
        calibrate.main(options)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def start(*options: object) -> subprocess.Popen:
    return subprocess.Popen(
        [forked_python.executable(), "-m", "neuron_fabric_lab.calibrate", *QUICK, *map(str, options)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | forked_python.environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*options: object) -> tuple[int, str, str]:
    process = start(*options)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


@needs_extension
@pytest.mark.timeout(900)  # four jobs
def test_an_interrupted_calibration_resumes_and_finishes(tmp_path):
    folder, path = tmp_path / "work", tmp_path / "profile.json"
    process = start("--out", folder, "--target", "100", "--repeats", "1000")  # does not end by itself
    wait_for(folder / "evidence.json", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "with --resume continues" in err
    code, out, err = run("--out", folder, "--resume", "--target", "100", "-o", path, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["chosen"]["backbone"] == "g_binary"
    assert result["profile"] == str(path)
    profile = nf.Profile.load(path).to_dict()
    assert profile["provenance"]["chosen"] == {"backbone": "g_binary", "head": "g_binary"}
    assert "nf calibrate digits" in profile["provenance"]["command"]
    # Another target reuses the saved branches and needs few more, or none.
    code, out, err = run("--out", folder, "--resume", "--target", "1e-9", "-o", path)
    assert code == 3, err
    assert "only full precision stays within" in out
    assert set(nf.Profile.load(path).to_dict()["phases"][0]["routes"].values()) == {"fp32"}
    # Evidence for another batch size does not count.
    code, _, err = run("--out", folder, "--resume", "--batch", "3")
    assert code == 1
    assert "has a calibration with another training (digits, batches of" in err
    assert "now digits, batches of 3)" in err


@needs_extension
@pytest.mark.parametrize(("options", "words"), [
    ([], "has the results so far; the same command with --resume continues"),
    (["--no-keep"], "interrupted; with --no-keep no results are saved")])
def test_an_interrupt_reports_what_is_saved(options, words, tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(calibrate.launch, "launch", interrupted)
    assert calibrate.main([*QUICK, "--out", str(tmp_path), *options]) == 130
    errors = capsys.readouterr().err
    assert words in errors
    assert ("--resume" in errors) != bool(options)


@needs_extension
def test_other_data_are_another_training(tmp_path):
    from neuron_fabric_lab.calibration_job import Request, training_of
    from neuron_fabric_lab.workloads import WORKLOADS

    def words(name: str, data: str | None) -> str:
        request = Request(workload=name, size=None, data=data, device="cpu", seed=1, batch=None,
                          out=tmp_path, resume=True, keep=True, quiet=True, command="")
        return training_of(request, SimpleNamespace(
            takes_data=WORKLOADS[name].takes_data, batch_size=WORKLOADS[name].batch_size))

    assert words("cifar10", "/one") != words("cifar10", "/other") != words("cifar10", None)
    assert words("cifar10", "/one").endswith(", data in /one")
    assert words("cifar10", "here") == words("cifar10", f"{Path.cwd()}/here")
    assert words("digits", "/one") == words("digits", None)  # digits are built in


def wait_for(path: Path, process: subprocess.Popen) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@needs_extension
def test_a_damaged_out_folder_exits_with_status_1(tmp_path):
    (tmp_path / "evidence.json").write_text("{")
    code, _, err = run("--out", tmp_path, "--resume")
    assert code == 1
    assert "evidence.json is missing or damaged" in err
