#!/usr/bin/env python3
"""Decides whether a build includes the device path, and with which CUDA toolkit.

NF_CUDA=AUTO, the default, includes it if PyTorch is built for CUDA, a CUDA device is in sight, and there is a
toolkit of the same major version. ON does not need a device, and fails if the rest is missing. OFF leaves it
out. A toolkit comes from the system, or from the Python index (CUDA 13 and newer).

`plan` prints the decision for cmake/nf_cuda.cmake; `requirement` prints the package that must be installed
first, if any. Uses only the standard library; scripts/build_backend.py imports it.
"""

import argparse
import dataclasses
import importlib.util
import json
import os
import re
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

from cuda_toolkit import (
    BuildError,
    Toolkit,
    Version,
    architectures_for,
    check_compiler,
    dotted,
    find_toolkits,
    link_packages,
    nccl_in,
    output_of,
    parse_version,
    requirement_of,
    supported_by,
)

MODES = ("AUTO", "ON", "OFF")
MIN_CAPABILITY = (8, 0)  # BF16 arithmetic
DRIVER = ("/dev/nvidiactl", "/dev/dxg")
TORCH_DEVICES = """
import torch
for card in range(torch.cuda.device_count()):
    print(torch.cuda.get_device_name(card), "%d.%d" % torch.cuda.get_device_capability(card), sep=", ")
"""


@dataclasses.dataclass(frozen=True)
class Torch:
    version: str
    cuda: str  # "13.0"; empty without CUDA
    python: tuple[str, ...] = ()  # the command that imports it
    nvidia: tuple[str, ...] = ()  # the folders of NVIDIA's packages beside it


@dataclasses.dataclass(frozen=True)
class Device:
    name: str
    capability: Version


@dataclasses.dataclass(frozen=True)
class Machine:
    torch: Torch | None
    devices: tuple[Device, ...] = ()
    toolkits: tuple[Toolkit, ...] = ()  # in the order of preference

    @property
    def usable(self) -> list[Version]:
        return [device.capability for device in self.devices if device.capability >= MIN_CAPABILITY]

    @property
    def toolkit(self) -> Toolkit | None:
        """The first of PyTorch's major version: the extension uses the CUDA runtime that PyTorch loads."""
        major = parse_version(self.torch.cuda)[0]
        return next((toolkit for toolkit in self.toolkits if toolkit.version[0] == major), None)


# What this machine has.


def packages() -> dict[str, object]:
    """The PyTorch that this interpreter would import, and the folders of NVIDIA's packages. Does not import
    PyTorch, which takes seconds."""
    torch, nvidia = importlib.util.find_spec("torch"), importlib.util.find_spec("nvidia")
    found: dict[str, object] = {"nvidia": list(nvidia.submodule_search_locations or []) if nvidia else []}
    if torch and torch.origin:
        facts = runpy.run_path(str(Path(torch.origin).with_name("version.py")))
        found |= {"version": facts["__version__"], "cuda": facts.get("cuda") or ""}
    return found


def find_packages() -> tuple[Torch | None, list[str]]:
    """PyTorch, and all folders of NVIDIA's packages. An isolated build hides the packages of its Python with
    PYTHONPATH. The extension will be loaded by the torch that is installed there, so the second query
    ignores the environment (-E), as in cmake/FindTorchPython.cmake."""
    torch, folders = None, []
    for flag in ("-B", "-E"):
        text = output_of([sys.executable, flag, __file__, "packages"])
        found = json.loads(text) if text else {"nvidia": []}
        folders += [folder for folder in found["nvidia"] if folder not in folders]
        if torch is None and "version" in found:
            torch = Torch(found["version"], found["cuda"], (sys.executable, flag), tuple(found["nvidia"]))
    return torch, folders


def find_devices(torch: Torch) -> tuple[Device, ...]:
    """Those of nvidia-smi. If it does not answer, those of PyTorch, provided that there is a driver."""
    text = output_of(["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"])
    if not text and any(map(os.path.exists, DRIVER)):
        text = output_of([*torch.python, "-c", TORCH_DEVICES])
    return tuple(Device(found[1], parse_version(found[2]))
                 for found in re.finditer(r"^(.+), (\d+\.\d+)$", text, re.M))


def look(mode: str, environment: Mapping[str, str]) -> Machine:
    """Searches no further than `mode` needs."""
    torch, folders = find_packages() if mode != "OFF" else (None, [])
    if torch is None or not torch.cuda:
        return Machine(torch)
    machine = Machine(torch, find_devices(torch))
    if mode == "AUTO" and not machine.usable:
        return machine
    return dataclasses.replace(machine, toolkits=find_toolkits(folders, environment))


# The decision.


def check_mode(mode: str) -> str:
    if mode not in MODES:
        raise BuildError(f"NF_CUDA is {mode!r}; expected one of {', '.join(MODES)}")
    return mode


def obstacle(mode: str, machine: Machine, has_architectures: bool = False) -> str:
    """Why the device path cannot be built, and what to do; empty if it can.

    has_architectures: CMAKE_CUDA_ARCHITECTURES is set, so the devices in sight do not matter.
    """
    torch = machine.torch
    if torch is None:
        return "PyTorch is not installed; install a CUDA build of it"
    if not torch.cuda:
        return f"PyTorch {torch.version} is built without CUDA; install a CUDA build of it"
    if mode == "AUTO" and not machine.devices:
        return "no CUDA device is in sight; NF_CUDA=ON builds it nevertheless"
    if machine.devices and not machine.usable and not has_architectures:
        device = machine.devices[0]
        return (f"it needs a device of compute capability {dotted(MIN_CAPABILITY)}, and {device.name} has "
                f"{dotted(device.capability)}; set CMAKE_CUDA_ARCHITECTURES to build for another machine")
    if machine.toolkit:
        return ""
    why = "there is no CUDA compiler (nvcc)"
    if machine.toolkits:
        other = machine.toolkits[0]
        why = (f"{other.nvcc} is of CUDA {dotted(other.version)}, and PyTorch {torch.version} is built for CUDA "
               f"{torch.cuda}")
    package = requirement_of(torch.cuda)
    return (f"{why}; install the CUDA toolkit {torch.cuda} and set CUDACXX to its nvcc"
            f"{f', or install the package {package}' if package else ''}")


def missing_package(mode: str, machine: Machine) -> str:
    """The package that contains the toolkit; empty if it is not needed or there is none."""
    torch = machine.torch
    if mode == "OFF" or torch is None or not torch.cuda or (mode == "AUTO" and not machine.usable):
        return ""
    return "" if machine.toolkit else requirement_of(torch.cuda)


def decide(mode: str, machine: Machine, folder: Path, host: str | None = None,
           has_architectures: bool = False) -> dict[str, str]:
    """The decision for CMake: either `why_not`, or how to compile. If the toolkit comes from packages, links
    them into `folder`. Raises BuildError if `mode` is ON and the device path cannot be built."""
    why_not, nvcc = obstacle(mode, machine, has_architectures), None
    if not why_not:
        toolkit = machine.toolkit
        nvcc = link_packages(toolkit.nvcc, folder) if toolkit.is_package else toolkit.nvcc
        if why := check_compiler(nvcc, host):
            why_not = f"{toolkit.nvcc} cannot compile for the device: {why}"
    if why_not and mode == "ON":
        raise BuildError(f"NF_CUDA=ON, but the device path cannot be built: {why_not}")
    if why_not:
        return {"why_not": why_not, "level": "WARNING" if machine.devices else "STATUS"}
    return {"nvcc": str(nvcc), "version": dotted(machine.toolkit.version),
            "architectures": ";".join(architectures_for(machine.usable, supported_by(nvcc))),
            "nccl": nccl_in(machine.torch.nvidia)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["plan", "requirement", "packages"])
    parser.add_argument("--mode", default=os.environ.get("NF_CUDA") or "AUTO",
                        help="AUTO, ON or, for `requirement`, OFF (NF_CUDA)")
    parser.add_argument("--folder", type=Path, default=Path("cuda_toolkit"), help="for the links to packages")
    parser.add_argument("--has-architectures", action="store_true", help="CMAKE_CUDA_ARCHITECTURES is set")
    options = parser.parse_args(arguments)
    try:
        if options.command == "packages":
            print(json.dumps(packages()))
            return 0
        mode = check_mode(options.mode)
        machine = look(mode, os.environ)
        if options.command == "requirement":
            print(missing_package(mode, machine))
        else:
            print(json.dumps(decide(mode, machine, options.folder, os.environ.get("CUDAHOSTCXX"),
                                    options.has_architectures)))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
