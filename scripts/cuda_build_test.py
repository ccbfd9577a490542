"""cuda_build.py: what NF_CUDA decides in each environment, and the message if it leaves the device path out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cuda_build
import cuda_toolkit
import pytest
from cuda_build import Device, Machine, Torch
from cuda_toolkit import BuildError, Toolkit

CPU_TORCH = Torch("2.11.0+cpu", "")
CUDA_12 = Torch("2.11.0+cu128", "12.8")
CUDA_13 = Torch("2.11.0+cu130", "13.0")
H200, A100, T4 = Device("H200", (9, 0)), Device("A100", (8, 0)), Device("T4", (7, 5))
NVCC_12 = Toolkit(Path("/old/bin/nvcc"), (12, 4))
NVCC_13 = Toolkit(Path("/new/bin/nvcc"), (13, 2))


@pytest.fixture(autouse=True)
def compiles(monkeypatch):
    """A machine whose compilers work."""
    monkeypatch.setattr(cuda_build, "check_compiler", lambda nvcc, host: "")
    monkeypatch.setattr(cuda_build, "supported_by", lambda nvcc: [(7, 5), (8, 0), (8, 6), (9, 0)])


def decide(mode: str, *machine: object, **options: object) -> dict[str, str]:
    return cuda_build.decide(mode, Machine(*machine), Path("unused"), **options)


@pytest.mark.parametrize(("machine", "architectures"), [
    ((CUDA_13, (H200,), (NVCC_13,)), "90-real;90-virtual"),
    ((CUDA_13, (H200, A100, H200), (NVCC_13,)), "80-real;90-real;90-virtual"),
    ((CUDA_13, (T4, A100), (NVCC_13,)), "80-real;80-virtual"),
    ((CUDA_13, (Device("B200", (10, 0)),), (NVCC_13,)), "90-virtual")])  # newer than this nvcc
def test_auto_compiles_for_the_devices_in_sight(machine, architectures):
    plan = decide("AUTO", *machine)
    assert (plan["nvcc"], plan["architectures"]) == ("/new/bin/nvcc", architectures)
    assert cuda_build.missing_package("AUTO", Machine(*machine)) == ""


@pytest.mark.parametrize(("machine", "level", "words"), [
    ((CPU_TORCH,), "STATUS", "PyTorch 2.11.0+cpu is built without CUDA"),
    ((None,), "STATUS", "PyTorch is not installed"),
    ((CUDA_13, (), (NVCC_13,)), "STATUS", "no CUDA device is in sight"),
    ((CUDA_13, (T4,), (NVCC_13,)), "WARNING", "compute capability 8.0, and T4 has 7.5"),
    ((CUDA_13, (H200,), ()), "WARNING", "there is no CUDA compiler (nvcc); install the CUDA toolkit 13.0"),
    ((CUDA_12, (H200,), (NVCC_13,)), "WARNING", "/new/bin/nvcc is of CUDA 13.2, and PyTorch 2.11.0+cu128 is built")])
def test_auto_leaves_it_out_and_on_fails_with_the_reason(machine, level, words):
    plan = decide("AUTO", *machine)
    assert plan["level"] == level
    assert words in plan["why_not"]
    if machine == (CUDA_13, (), (NVCC_13,)):
        assert decide("ON", *machine)["architectures"] == "", "CMake's default list"
        return
    with pytest.raises(BuildError) as failed:
        decide("ON", *machine)
    assert str(failed.value) == f"NF_CUDA=ON, but the device path cannot be built: {plan['why_not']}"
    assert "\n" not in plan["why_not"]


def test_given_architectures_replace_those_of_the_devices():
    assert decide("ON", CUDA_13, (T4,), (NVCC_13,), has_architectures=True)["nvcc"] == "/new/bin/nvcc"


def test_the_first_toolkit_of_pytorchs_major_version_is_used():
    assert decide("AUTO", CUDA_12, (H200,), (NVCC_13, NVCC_12))["nvcc"] == "/old/bin/nvcc"


def test_an_unknown_mode_is_rejected(capsys):
    assert cuda_build.main(["plan", "--mode", "1"]) == 1
    assert capsys.readouterr().err == "NF_CUDA is '1'; expected one of AUTO, ON, OFF\n"


def test_a_compiler_that_does_not_work_is_named(monkeypatch):
    monkeypatch.setattr(cuda_build, "check_compiler", lambda nvcc, host: f"error: {host} is too new")
    machine = (CUDA_13, (H200,), (NVCC_13,))
    why = "/new/bin/nvcc cannot compile for the device: error: g++-99 is too new"
    assert decide("AUTO", *machine, host="g++-99") == {"why_not": why, "level": "WARNING"}
    with pytest.raises(BuildError, match="g\\+\\+-99 is too new"):
        decide("ON", *machine, host="g++-99")


# The search, with stand-ins for programs and for PyTorch.


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def nvcc(path: Path, version: str = "13.0") -> Path:
    return program(path, f"""case $1 in
--version) echo 'Cuda compilation tools, release {version}, V{version}.88' ;;
--list-gpu-arch) printf 'compute_75\\ncompute_80\\ncompute_90\\n' ;;
esac""")


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """A machine with a PyTorch for CUDA 13.0, without devices and toolkits."""
    (tmp_path / "site/torch").mkdir(parents=True)
    (tmp_path / "site/torch/__init__.py").write_text("raise SystemExit('the search imports torch')\n")
    (tmp_path / "site/torch/version.py").write_text("__version__, cuda = '2.99.0+cu130', '13.0'\n")
    (tmp_path / "site/nvidia").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(cuda_toolkit, "USUAL", str(tmp_path / "usual/bin/nvcc"))
    monkeypatch.setattr(cuda_build, "DRIVER", ())
    for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH", "NF_CUDA"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def smi(stage: Path, answer: str) -> None:
    program(stage / "bin/nvidia-smi",
            f'[ "$*" = "--query-gpu=name,compute_cap --format=csv,noheader" ] && {answer}')


def test_the_search_finds_pytorch_without_importing_it(stage):
    found = cuda_build.look("AUTO", os.environ)
    assert (found.torch.version, found.torch.cuda) == ("2.99.0+cu130", "13.0")
    assert (found.devices, found.toolkits) == ((), ())


@pytest.mark.parametrize(("answer", "capabilities"), [
    ("printf 'NVIDIA H200, 9.0\\nNVIDIA A10, 8.6\\n'", [(9, 0), (8, 6)]),
    ("echo 'No devices were found'", []),
    ("printf 'NVIDIA H200, 9.0\\n' && exit 9", [])])
def test_devices_are_those_of_nvidia_smi(stage, answer, capabilities):
    smi(stage, answer)
    assert [device.capability for device in cuda_build.look("ON", os.environ).devices] == capabilities


def test_without_nvidia_smi_pytorch_names_the_devices_if_there_is_a_driver(stage, monkeypatch):
    (stage / "site/torch/__init__.py").write_text("""class cuda:
    device_count = lambda: 2
    get_device_name = lambda card: f"card {card}"
    get_device_capability = lambda card: (9, card)
""")
    assert cuda_build.look("AUTO", os.environ).devices == ()
    monkeypatch.setattr(cuda_build, "DRIVER", (os.devnull,))
    assert cuda_build.look("AUTO", os.environ).devices == (Device("card 0", (9, 0)), Device("card 1", (9, 1)))


def test_toolkits_are_in_order_of_preference(stage, monkeypatch):
    smi(stage, "echo 'NVIDIA H200, 9.0'")
    package = nvcc(stage / "site/nvidia/cu13/bin/nvcc")
    usual = nvcc(stage / "usual/bin/nvcc", "12.9")
    home, first = nvcc(stage / "home/bin/nvcc"), nvcc(stage / "bin/nvcc")
    monkeypatch.setenv("CUDA_HOME", str(stage / "home"))
    found = cuda_build.look("AUTO", os.environ)
    assert [toolkit.nvcc for toolkit in found.toolkits] == [first, home, usual, package]
    assert [toolkit.is_package for toolkit in found.toolkits] == [False, False, False, True]
    chosen = nvcc(stage / "chosen/nvcc-13")
    monkeypatch.setenv("CUDACXX", str(chosen))
    assert cuda_build.look("AUTO", os.environ).toolkits[0].nvcc == chosen


def test_a_cudacxx_that_is_not_nvcc_is_an_error(stage, monkeypatch):
    monkeypatch.setenv("CUDACXX", str(program(stage / "bin/clang++", "echo clang version 14")))
    with pytest.raises(BuildError, match="which is not nvcc; set it to the path of nvcc, or unset it"):
        cuda_build.look("ON", os.environ)


def test_auto_without_a_device_searches_no_toolkit(stage):
    program(stage / "bin/nvcc", f"touch {stage}/asked")
    assert cuda_build.look("AUTO", os.environ).toolkits == ()
    assert not (stage / "asked").exists()


def test_the_packages_are_linked_into_the_layout_of_a_toolkit(stage, capsys):
    smi(stage, "echo 'NVIDIA H200, 9.0'")
    root = stage / "site/nvidia/cu13"
    nvcc(root / "bin/nvcc")
    for file in ("bin/crt/link.stub", "include/cuda_runtime.h", "nvvm/bin/cicc", "lib/libcudart.so.13",
                 "lib/libcudart_static.a", "../nccl/include/nccl.h"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)
    for _ in range(2):  # the second time it replaces the links
        assert cuda_build.main(["plan", "--folder", str(stage / "toolkit")]) == 0
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert plan == {
        "nvcc": str(stage / "toolkit/bin/nvcc"), "version": "13.0", "architectures": "90-real;90-virtual",
        "nccl": str(stage / "site/nvidia/nccl")}
    for file in ("bin/crt/link.stub", "include/cuda_runtime.h", "nvvm/bin/cicc", "lib64/libcudart.so.13",
                 "lib64/libcudart_static.a"):
        assert (stage / "toolkit" / file).read_text() == file.replace("lib64", "lib")
    assert (stage / "toolkit/lib64/libcudart.so").read_text() == "lib/libcudart.so.13"
    assert not (stage / "toolkit/bin").is_symlink(), "nvcc would search beside the target of the link"


# cmake/nf_cuda.cmake, as far as it goes without a compiler.


def configure(stage: Path, mode: str) -> subprocess.CompletedProcess:
    source = Path(cuda_build.__file__).parents[1]
    return subprocess.run(
        ["/usr/bin/env", "-u", "NF_CUDA", "PATH=" + os.environ["PATH"] + ":/usr/bin:/bin", "cmake",
         f"-DNF_CUDA={mode}", "-DTorchPython_FOUND=1", f"-DPython_EXECUTABLE={sys.executable}",
         f"-DPROJECT_SOURCE_DIR={source}", f"-DPROJECT_BINARY_DIR={stage}", "-P", source / "cmake/nf_cuda.cmake"],
        capture_output=True, text=True, check=False)


def test_cmake_says_why_the_device_path_is_left_out(stage):
    done = configure(stage, "AUTO")
    assert done.returncode == 0, done.stderr
    assert "The device path is left out: no CUDA device is in sight" in done.stdout


@pytest.mark.parametrize(("mode", "words"), [
    ("ON", "NF_CUDA=ON, but the device path cannot be built: PyTorch 2.99.0 is built without CUDA; install"),
    ("yes", "NF_CUDA is 'yes'; expected one of AUTO, ON, OFF")])
def test_cmake_fails_with_one_sentence(stage, mode, words):
    (stage / "site/torch/version.py").write_text("__version__, cuda = '2.99.0', None\n")
    done = configure(stage, mode)
    assert done.returncode != 0
    assert words in " ".join(done.stderr.split())
