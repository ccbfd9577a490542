"""The program, Python, PyTorch and the extension: whether they exist and fit each other."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .finding import Finding, failed, ok, warning
from .probe import Facts

MIN_PYTHON = (3, 11)
MIN_TORCH = (2, 11)
PACKAGE = Path(__file__).resolve().parents[1]
REBUILD = "`make build` in a checkout, `pip install --force-reinstall --no-deps .` elsewhere"


def find_nf() -> str | None:
    """The program that started this, otherwise the checkout's, the one beside Python, the one on PATH."""
    places = [os.environ.get("NF_PROGRAM"), PACKAGE.parents[1] / "build/release/tools/nf/nf",
              Path(sys.executable).parent / "nf"]
    for place in places:
        if place and os.access(place, os.X_OK):
            return str(place)
    return shutil.which("nf")


def query_nf(program: str) -> Facts:
    """The output of `nf info --json`, or an `error`."""
    try:
        done = subprocess.run([program, "info", "--json"], capture_output=True, text=True, timeout=60,
                              check=False)
        if done.returncode != 0:
            return {"error": done.stderr.strip().removeprefix("nf: ") or f"status {done.returncode}"}
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}


def check_nf(program: str | None, info: Facts) -> list[Finding]:
    if program is None:
        return [warning("nf", "the program nf was not found", f"Build it: {REBUILD}.")]
    if "error" in info:
        return [failed("nf", f"{program}: {info['error']}",
                       f"Unset NF_FORCE_ISA if it is set, or build nf again: {REBUILD}.")]
    found = [ok("nf", f"{info['version']}, {info['isa']} (available: {', '.join(info['isas'])}), "
                f"{'with' if info['cuda'] else 'without'} CUDA")]
    if not info["mpi"]:
        found.append(ok("MPI", "nf is built without it; only `--transport mpi` needs it"))
    elif shutil.which("mpirun") is None:
        found.append(warning("MPI", "nf is built with it, but mpirun was not found",
                             "Install openmpi-bin, or do not use `--transport mpi`."))
    else:
        found.append(ok("MPI", "nf is built with it, and mpirun exists"))
    return found


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    finding = f"{platform.python_version()}, {sys.executable}"
    if version < MIN_PYTHON:
        return failed("Python", finding, "Set NF_PYTHON to a Python 3.11 or newer.")
    return ok("Python", finding)


def minor(version: str) -> tuple[int, ...]:
    """The version without patch and build: 2.11 for 2.11.0+cu130."""
    return tuple(int(digits) for digits in re.findall(r"\d+", version)[:2])


def check_torch(torch: Facts) -> Finding:
    minimum = ".".join(map(str, MIN_TORCH))
    if "error" in torch:
        return failed("PyTorch", f"does not load: {torch['error']}",
                      f"Install {minimum} or newer: `make setup` in a checkout, `pip install torch` "
                      "elsewhere.")
    if minor(torch["version"]) < MIN_TORCH:
        return failed("PyTorch", torch["version"],
                      f"Install {minimum} or newer, then build again: {REBUILD}.")
    return ok("PyTorch", torch["version"])


def check_extension(extension: Facts, torch: Facts, nf_version: str | None) -> Finding:
    if "error" in extension:
        return failed("extension", f"does not load: {extension['error']}",
                      f"Build it for this PyTorch: {REBUILD}.")
    built_for = extension["built_for_torch"]
    finding = f"{extension['version']}, built for PyTorch {built_for or 'of an unknown version'}"
    if nf_version not in (None, extension["version"]):
        return warning("extension", f"{finding}, but nf is {nf_version}", f"Build both: {REBUILD}.")
    if built_for is None or minor(built_for) != minor(torch["version"]):
        return warning("extension", f"{finding}, but {torch['version']} is installed",
                       f"Build it again: {REBUILD}.")
    return ok("extension", f"{finding}, reduces on {extension['devices'] or 'the host'}")


def check_backends(backends: Facts) -> list[Finding]:
    """Gloo only; NCCL is checked together with the devices."""
    if "error" in backends:
        return [failed("Gloo", f"torch.distributed does not load: {backends['error']}",
                       "Install a PyTorch with torch.distributed.")]
    if not backends["gloo"]:
        return [failed("Gloo", "not in this PyTorch", "Install a PyTorch built with USE_GLOO=1.")]
    return [ok("Gloo", "in PyTorch")]
