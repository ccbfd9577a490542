"""build_backend.py: what a build requires besides scikit-build-core, and the contents of an sdist."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import build_backend
import cuda_build
import pytest
from cuda_build import Device, Machine, Torch
from cuda_toolkit import Toolkit

CPU_TORCH = Torch("2.11.0+cpu", "")
CUDA_12, CUDA_13 = Torch("2.11.0+cu128", "12.8"), Torch("2.11.0+cu130", "13.0")
H200, T4 = Device("H200", (9, 0)), Device("T4", (7, 5))
NVCC_12, NVCC_13 = Toolkit(Path("/old/bin/nvcc"), (12, 4)), Toolkit(Path("/new/bin/nvcc"), (13, 2))
PACKAGE = "cuda-toolkit[nvcc,crt,nvvm,cccl,cudart]==13.0.*"
ROOT = Path(build_backend.__file__).parents[1]


def set_machine(monkeypatch, *machine) -> None:
    found = Machine(*machine)
    monkeypatch.setattr(cuda_build, "find_packages", lambda: (found.torch, []))
    monkeypatch.setattr(cuda_build, "look", lambda mode, environment: found)


@pytest.mark.parametrize(("mode", "machine", "package"), [
    ("AUTO", (CUDA_13, (H200,)), PACKAGE),
    ("AUTO", (CUDA_13, (H200,), (NVCC_12,)), PACKAGE),
    ("ON", (CUDA_13,), PACKAGE),
    ("AUTO", (CUDA_13,), ""),
    ("AUTO", (CUDA_13, (T4,)), ""),
    ("AUTO", (CPU_TORCH, (H200,)), ""),
    ("AUTO", (CUDA_12, (H200,)), ""),  # the index has no nvcc of CUDA 12
    ("ON", (CUDA_13, (), (NVCC_13,)), ""),
    ("OFF", (CUDA_13, (H200,)), "")])
def test_the_toolkit_is_required_from_the_index_only_if_it_is_used(monkeypatch, mode, machine, package):
    monkeypatch.setenv("NF_CUDA", mode)
    set_machine(monkeypatch, *machine)
    monkeypatch.setattr(build_backend, "is_available", lambda package: True)
    assert build_backend.extra_requirements() == [package] * bool(package)


def test_pytorch_is_required_first(monkeypatch):
    set_machine(monkeypatch, None)
    assert build_backend.extra_requirements() == ["torch>=2.11"]


def test_without_an_index_auto_builds_for_the_host_and_on_fails(monkeypatch, capsys):
    set_machine(monkeypatch, CUDA_13, (H200,))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", os.devnull)
    assert build_backend.required(["a"]) == ["a"]
    assert "builds without the device path: there is no CUDA compiler (nvcc); install" in capsys.readouterr().err
    monkeypatch.setenv("NF_CUDA", "ON")
    with pytest.raises(SystemExit) as failed:
        build_backend.required([])
    assert str(failed.value).startswith("neuron_fabric: NF_CUDA=ON, but the device path cannot be built: there is no")
    assert str(failed.value).endswith("pip cannot download that package now")


def test_an_unknown_mode_is_rejected(monkeypatch):
    monkeypatch.setenv("NF_CUDA", "1")
    with pytest.raises(SystemExit, match="neuron_fabric: NF_CUDA is '1'; expected one of AUTO, ON, OFF"):
        build_backend.required([])


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_an_sdist_contains_the_files_of_the_checkout(tmp_path):
    """So a wheel builds from it as it does from the checkout."""
    name = subprocess.run(
        [sys.executable, "-c", "import build_backend, sys; print(build_backend.build_sdist(sys.argv[1]))", tmp_path],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": f"{ROOT}/scripts"}, capture_output=True, text=True,
        check=True).stdout.splitlines()[-1]
    with tarfile.open(tmp_path / name) as sdist:
        packed = {file.split("/", 1)[1] for file in sdist.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {file for file in listed.splitlines() if (ROOT / file).is_file()} <= packed
    assert not [file for file in packed if file.startswith(("build/", ".venv/")) or file.endswith(".so")]
