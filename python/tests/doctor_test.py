"""nf doctor: its findings on this machine, and its messages if something is broken."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from unittest import mock

import neuron_fabric
import pytest
from neuron_fabric.doctor import __main__ as doctor
from neuron_fabric.doctor import device, environment, job, machine, software
from neuron_fabric.doctor.finding import FAILED, OK, WARNING, failed, ok, to_table

PACKAGE = Path(neuron_fabric.__file__).parent
CHECKOUT = PACKAGE.parents[1]
TORCH = {"version": "2.11.0+cu130", "cuda": "13.0"}
EXTENSION = {"version": "0.1.0", "devices": "cuda", "architectures": "80-real,90-real,90-virtual",
             "built_for_torch": "2.11.0"}
HOPPER = {"name": "H200", "capability": [9, 0]}

needs_extension = pytest.mark.skipif(
    importlib.util.find_spec("neuron_fabric._C") is None,
    reason="the extension neuron_fabric._C is not built")


def run_doctor(*options: str, first: Path | None = None, **variables: str):
    """With the folder `first` ahead of all others in the path, and without variables of NF, NCCL and Gloo."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("NF_", "NCCL_", "GLOO_"))}
    path = os.pathsep.join(filter(None, [str(first) if first else "", *sys.path]))
    return subprocess.run([sys.executable, "-P", "-m", "neuron_fabric.doctor", *options],
                          env=clean | {"PYTHONPATH": path} | variables, capture_output=True, text=True,
                          timeout=240, check=False)


def by_check(done) -> dict[str, dict]:
    assert "Traceback" not in done.stderr, done.stderr
    return {found["check"]: found for found in map(json.loads, done.stdout.splitlines())}


@needs_extension
def test_this_installation_passes():
    done = run_doctor("--json")
    found = by_check(done)
    assert done.returncode == 0, done.stdout
    assert all(set(one) == {"check", "state", "finding", "advice"} for one in found.values())
    assert all(one["state"] == OK or one["advice"] for one in found.values())
    assert {"Python", "PyTorch", "extension", "Gloo", "NCCL", "CUDA", "environment", "shared memory",
            "open files"} <= set(found)
    assert found["extension"]["state"] == found["Gloo"]["state"] == OK
    last = found["two ranks"]
    assert last["state"] == OK
    assert "replicas equal" in last["finding"]
    for wrapper in ("DDP", "FSDP2"):
        error, size = map(float, re.search(rf"{wrapper}: error ([\d.]+) % of the energy, ([\d.]+) % of FP32's",
                                           last["finding"]).groups())
        assert 0.1 < error < 5
        assert 12 < size < 20


def train_with_fsdp2_beside_a_gpu() -> dict[str, float]:
    import torch

    with mock.patch.object(torch._C, "_get_accelerator", lambda *_: torch.device("cuda")):
        return job.train("FSDP2")


@needs_extension
def test_the_job_stays_on_the_host_beside_a_gpu():
    """On a host with a GPU, fully_shard() moves parameters there by default."""
    from ranks import on_ranks

    for result in on_ranks(job.RANKS, train_with_fsdp2_beside_a_gpu):
        assert 0 < result["error"] < job.MAX_ERROR


def test_a_broken_extension_is_reported_and_no_job_is_started(tmp_path):
    package = tmp_path / "neuron_fabric"
    package.mkdir()
    for path in PACKAGE.iterdir():
        if path.suffix != ".so":
            (package / path.name).symlink_to(path)
    (package / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}").write_text("no library")
    done = run_doctor("--json", first=tmp_path)
    found = by_check(done)
    assert done.returncode == 1
    assert found["extension"]["state"] == FAILED
    assert "make build" in found["extension"]["advice"]
    assert found["PyTorch"]["state"] == found["Gloo"]["state"] == OK
    assert found["two ranks"]["state"] == WARNING
    assert "not started" in found["two ranks"]["finding"]


@pytest.mark.parametrize(("code", "words"), [
    ("raise ModuleNotFoundError(\"No module named 'torch'\")", "No module named 'torch'"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "Python was killed by SIGILL")])
def test_without_torch_the_other_checks_still_run(tmp_path, code, words):
    (tmp_path / "torch.py").write_text(code)
    done = run_doctor(first=tmp_path, NF_CHANNEL="1")
    assert done.returncode == 1
    assert done.stderr == ""
    assert re.search(rf"^PyTorch +failed +does not load: {words}\n +-> Install 2.11", done.stdout, re.M)
    for check in ("Python", "shared memory", "open files"):
        assert re.search(rf"^{check} +(ok|warning) ", done.stdout, re.M), check
    assert "Did you mean NF_CHANNELS?" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("failed: PyTorch; warnings: ")


def test_quick_starts_no_job(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "probe", lambda: {
        "torch": TORCH, "backends": {"gloo": True, "nccl": None}, "extension": EXTENSION,
        "devices": {"cards": []}})
    monkeypatch.setattr(doctor, "check_job", lambda: pytest.fail("a job was started"))
    doctor.main(["--quick", "--json"])
    checks = [json.loads(line)["check"] for line in capsys.readouterr().out.splitlines()]
    assert "extension" in checks
    assert "two ranks" not in checks


def test_unknown_options_are_reported(capsys):
    with pytest.raises(SystemExit) as end:
        doctor.main(["--fast"])
    assert end.value.code == 2
    assert "unrecognized arguments: --fast" in capsys.readouterr().err


def test_a_job_that_takes_too_long_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = job.check_job(seconds=0.01)
    assert found.state == FAILED
    assert found.finding.startswith("not finished after")
    assert str(tmp_path) in found.advice


@pytest.mark.parametrize(("name", "value", "state", "words"), [
    ("NF_MODE", "on", OK, "on"),
    ("NF_MODE", "off", WARNING, "plain DDP reduces the gradients"),
    ("NF_MODE", "sometimes", FAILED, "'sometimes'"),
    ("NF_CHANNELS", "2", OK, "2, on devices"),
    ("NF_CHANNELS", "9", FAILED, "'9'"),
    ("NF_LANES", "2", WARNING, "a deprecated name of NF_CHANNELS"),
    ("NF_RUNDIR", "runs", WARNING, "no such setting"),
    ("CUDA_DEVICE_MAX_CONNECTIONS", "1", WARNING, "may block kernels"),
    ("CUDA_DEVICE_MAX_CONNECTIONS", "16", OK, "16"),
    ("NCCL_COMM_BLOCKING", "1", WARNING, "waits forever"),
    ("NCCL_COMM_BLOCKING", "0", OK, "0"),
    ("NCCL_HOSTID", "a", WARNING, "as one host"),
    ("NCCL_DEBUG", "INFO", OK, "INFO"),
    ("GLOO_SOCKET_IFNAME", "lo", OK, "lo"),
    ("GLOO_SOCKET_IFNAME", "nosuch", FAILED, "no interface 'nosuch'")])
def test_environment_variables_are_checked(name, value, state, words):
    [found] = environment.check_environment({name: value, "HOME": "/root", "NF_PYTHON": "python3"})
    assert (found.check, found.state) == (name, state)
    assert words in found.finding
    assert bool(found.advice) == (state != OK)


def test_an_unknown_variable_is_reported_with_the_nearest_known_one():
    [found] = environment.check_environment({"NF_RUNDIR": "runs"})
    assert found.advice == "Did you mean NF_RUN_DIR?"


@pytest.mark.skipif(not (CHECKOUT / "src").exists(), reason="not a git checkout")
def test_every_variable_that_the_code_reads_is_known():
    files = [path for folder in ("src", "cuda", "tools", "python/csrc", "python/neuron_fabric",
                                     "python/neuron_fabric_lab", "tests")
             for path in (CHECKOUT / folder).rglob("*") if path.suffix in (".cc", ".py")]
    read = {name for path in files for name in re.findall(r'"(NF_[A-Z_]+)"', path.read_text())}
    assert {"NF_MODE", "NF_CHANNELS", "NF_FORCE_ISA"} <= read
    assert read <= {*environment.REPORTED, *environment.DEPRECATED, *environment.QUIET}


@pytest.mark.parametrize(("cards", "built", "state", "words"), [
    ([HOPPER], {}, OK, "sm_90"),
    ([{"name": "A10", "capability": [8, 6]}, HOPPER], {}, OK, "sm_80, sm_90"),
    ([{"name": "B200", "capability": [10, 0]}], {}, OK, "PTX of sm_90, compiled on first use"),
    ([HOPPER, {"name": "V100", "capability": [7, 0]}], {}, WARNING, "V100 has compute capability 7.0; every step"),
    ([HOPPER], {"devices": "", "architectures": ""}, WARNING,
     "no device code; every step copies the gradients to host memory and back and reduces them on the CPU")])
def test_gpus_are_compared_with_the_compiled_architectures(cards, built, state, words):
    found = device.check_cards(cards, EXTENSION | built)
    assert found.state == state
    assert words in found.finding
    assert state == OK or "`NF_CUDA=ON make build`" in found.advice


@pytest.mark.parametrize(("cuda", "cards", "driver", "state"), [
    ("13.0", [HOPPER], "580.65.06", OK), ("13.0", [], None, OK), (None, [], None, OK),
    ("13.0", [], "470.1", WARNING), (None, [], "580.65.06", WARNING)])
def test_a_driver_without_a_gpu_is_a_warning(cuda, cards, driver, state):
    found = device.check_cuda(TORCH | {"cuda": cuda}, {"cards": cards}, driver)
    assert found.state == state
    assert "None" not in found.finding


def test_incompatible_versions_are_reported():
    assert software.check_torch({"version": "2.10.1", "cuda": None}).state == FAILED
    assert software.check_torch({"version": "2.12.0", "cuda": None}).state == OK
    assert software.check_python((3, 10, 1)).state == FAILED
    assert software.check_extension(EXTENSION, TORCH, "0.1.0").state == OK
    assert "nf is 0.2.0" in software.check_extension(EXTENSION, TORCH, "0.2.0").finding
    other = software.check_extension(EXTENSION, {"version": "2.12.0", "cuda": None}, None)
    assert other.state == WARNING
    assert "2.12.0 is installed" in other.finding
    assert software.check_backends({"gloo": False, "nccl": None})[0].state == FAILED
    [broken] = software.check_nf("nf", {"error": "NF_FORCE_ISA is 'avx9'"})
    assert broken.state == FAILED


def test_low_system_limits_are_warnings(tmp_path):
    assert machine.check_shared_memory(str(tmp_path / "none")).state == WARNING
    assert "--shm-size" in machine.check_shared_memory(minimum=1 << 60).advice
    assert "ulimit -n" in machine.check_open_files(minimum=1 << 60).advice


def test_advice_is_printed_below_its_finding():
    assert to_table([ok("nf", "0.1.0"), failed("PyTorch", "none", "Install it.")]) == """\
check             finding
nf       ok       0.1.0
PyTorch  failed   none
                  -> Install it."""
