"""The build backend of pyproject.toml: scikit-build-core, which also requires PyTorch and nvcc if needed.

An extension only works with the PyTorch version that it was built with. An isolated build therefore
uses the installed PyTorch (cmake/FindTorchPython.cmake finds it). If none is installed, the build
requires PyTorch; pip then installs the same version with the package, as its dependency.

If the build includes the device path (scripts/cuda_build.py) and the system has no CUDA toolkit, the
build requires the packages that contain one.
"""

import os
import subprocess
import sys
import tempfile
from typing import Any

import cuda_build
from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403  the unchanged hooks

TORCH = "torch>=2.11"
# -E ignores the PYTHONPATH of an isolated build, which hides pip.
PIP = [sys.executable, "-E", "-m", "pip"]
DOWNLOAD = [*PIP, "download", "--no-deps", "--retries", "0", "--timeout", "15", "--dest"]

Settings = dict[str, Any] | None


def is_available(package: str) -> bool:
    """Whether pip can download the package, by its first part, a few kB that list the others. True without pip:
    another program installs the requirements."""
    if subprocess.run([*PIP, "--version"], capture_output=True, check=False).returncode:
        return True
    name, _, rest = package.partition("[")
    with tempfile.TemporaryDirectory() as away:
        return not subprocess.run([*DOWNLOAD, away, name + rest.partition("]")[2]], capture_output=True,
                                  check=False).returncode


def extra_requirements() -> list[str]:
    mode = cuda_build.check_mode(os.environ.get("NF_CUDA") or "AUTO")
    torch, _ = cuda_build.find_packages()
    if torch is None:
        return [TORCH]
    machine = cuda_build.look(mode, os.environ)
    package = cuda_build.missing_package(mode, machine)
    if not package or is_available(package):
        return [package] if package else []
    why = f"{cuda_build.obstacle(mode, machine)}; pip cannot download that package now"
    if mode == "ON":
        raise cuda_build.BuildError(f"NF_CUDA=ON, but the device path cannot be built: {why}")
    print(f"neuron_fabric: builds without the device path: {why}", file=sys.stderr)
    return []


def required(requirements: list[str]) -> list[str]:
    try:
        return [*requirements, *extra_requirements()]
    except cuda_build.BuildError as error:
        raise SystemExit(f"neuron_fabric: {error}") from None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return required(build.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return required(build.get_requires_for_build_editable(config_settings))
