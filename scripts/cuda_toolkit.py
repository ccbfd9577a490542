"""CUDA toolkits: those of the system, and the packages of the Python index linked into the same layout."""

import dataclasses
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

USUAL = "/usr/local/cuda/bin/nvcc"
FIRST_WITH_NVCC = 13  # the packages of CUDA 12 contain ptxas, but no nvcc
PARTS = "nvcc,crt,nvvm,cccl,cudart"
# Without these headers no file of cuda/ compiles.
SAMPLE = "#include <cuda_runtime.h>\n#include <cub/version.cuh>\n__global__ void kernel() {}\n"
SECONDS = 120  # for a first import of PyTorch from a slow disk

Version = tuple[int, int]


class BuildError(Exception):
    """The device path was required and cannot be built, or a setting is invalid."""


@dataclasses.dataclass(frozen=True)
class Toolkit:
    nvcc: Path
    version: Version

    @property
    def is_package(self) -> bool:
        """From the Python index: needs link_packages()."""
        return self.nvcc.match("nvidia/cu*/bin/nvcc")


def parse_version(text: str) -> Version:
    major, minor = re.findall(r"\d+", text)[:2]
    return int(major), int(minor)


def dotted(version: Version) -> str:
    return ".".join(map(str, version))


def requirement_of(cuda: str) -> str:
    """The packages that contain the toolkit of a CUDA version; empty if the index has no compiler for it."""
    return f"cuda-toolkit[{PARTS}]=={cuda}.*" if parse_version(cuda)[0] >= FIRST_WITH_NVCC else ""


def output_of(command: Sequence[str | Path]) -> str:
    """Standard output; empty if the command is missing, fails or hangs."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def find_toolkits(folders: Sequence[str], environment: Mapping[str, str]) -> tuple[Toolkit, ...]:
    """In the order of preference: CUDACXX, PATH, CUDA_HOME, the usual place, the packages in `folders`."""

    def toolkit(nvcc: str) -> Toolkit | None:
        found = re.search(r"release (\d+\.\d+)", output_of([nvcc, "--version"]))
        return Toolkit(Path(nvcc), parse_version(found[1])) if found else None

    path = environment.get("PATH")
    places = [shutil.which("nvcc", path=path)]
    places += [f"{environment[name]}/bin/nvcc" for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    if given := environment.get("CUDACXX"):
        places.insert(0, shutil.which(given, path=path) or given)
        if toolkit(places[0]) is None:
            raise BuildError(f"CUDACXX is {given!r}, which is not nvcc; set it to the path of nvcc, or unset it")
    places.append(USUAL)
    places += [str(nvcc) for folder in folders for nvcc in sorted(Path(folder).glob("cu*/bin/nvcc"))]
    return tuple(filter(None, map(toolkit, dict.fromkeys(filter(None, places)))))


def link_packages(nvcc: Path, folder: Path) -> Path:
    """Links the toolkit of the packages into `folder`, in the layout that nvcc and CMake expect, and returns its
    nvcc. The packages have lib instead of lib64, and libcudart.so only with its version."""
    root = nvcc.parents[1]
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "lib64"):
        (folder / name).mkdir(parents=True)
    for name in ("include", "nvvm"):
        (folder / name).symlink_to(root / name)
    for file in (root / "bin").iterdir():  # a real folder: nvcc searches .. of its folder
        (folder / "bin" / file.name).symlink_to(file)
    for file in (root / "lib").iterdir():
        for name in {file.name, re.sub(r"\.so\..*", ".so", file.name)}:
            (folder / "lib64" / name).symlink_to(file)
    return folder / "bin" / nvcc.name


def check_compiler(nvcc: Path, host: str | None) -> str:
    """Compiles a small file. Returns why nvcc cannot, such as missing headers or a host compiler that is too
    new; empty if it can. host: the host compiler; None for nvcc's default."""
    with tempfile.TemporaryDirectory() as away:
        source = Path(away) / "sample.cu"
        source.write_text(SAMPLE)
        command = [nvcc, "-std=c++20", *(["-ccbin", host] if host else []), "-c", source, "-o", os.devnull]
        done = subprocess.run(command, cwd=away, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else f"status {done.returncode}")


def supported_by(nvcc: Path) -> list[Version]:
    """The compute capabilities for which nvcc can compile."""
    digits = re.findall(r"compute_(\d+)(\d)\b", output_of([nvcc, "--list-gpu-arch"]))
    return [(int(major), int(minor)) for major, minor in digits]


def architectures_for(devices: Sequence[Version], supported: Sequence[Version]) -> list[str]:
    """CMAKE_CUDA_ARCHITECTURES: code for each device that nvcc supports, and PTX of the newest for newer devices."""

    def digits(version: Version) -> str:
        return "".join(map(str, version))

    if not devices:
        return []
    newest = max(version for version in supported if version <= max(devices))
    return [*(f"{digits(one)}-real" for one in sorted({*devices} & {*supported})), f"{digits(newest)}-virtual"]


def nccl_in(folders: Sequence[str]) -> str:
    """The folder of NCCL among NVIDIA's packages; empty if there is none."""
    return next((f"{folder}/nccl" for folder in folders if (Path(folder) / "nccl/include/nccl.h").exists()), "")
