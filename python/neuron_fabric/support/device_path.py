"""The device path, which reduces CUDA gradients on the device: whether this build contains code for a device,
what its absence costs, and how to get it."""

import re

from neuron_fabric.support import units

REBUILD = "`NF_CUDA=ON make build` in a checkout, `NF_CUDA=ON pip install --force-reinstall --no-deps .` elsewhere"
COST = "every step copies the gradients{} to host memory and back and reduces them on the CPU"


def code_for(architectures: str, capability: tuple[int, int]) -> str:
    """The device code that a device runs, such as "sm_90"; empty if there is none.

    architectures: the extension's, values of CMAKE_CUDA_ARCHITECTURES separated by commas.
    """
    ptx = ""
    for word in filter(None, architectures.split(",")):
        found = re.fullmatch(r"(\d+)(\d)([af]?)(-real|-virtual)?", word)
        if found is None:
            return word  # "native" or "all-major": chosen by nvcc
        version, only = (int(found[1]), int(found[2])), found[3]
        is_family = version[0] == capability[0] and version[1] <= capability[1]
        fits = version == capability if only == "a" else is_family
        if fits and found[4] != "-virtual":
            return f"sm_{found[1]}{found[2]}{only}"
        if found[4] != "-real" and (fits or (not only and version <= capability)):
            ptx = f"PTX of sm_{found[1]}{found[2]}{only}, compiled on first use"
    return ptx


def why_not(architectures: str, name: str, capability: tuple[int, int]) -> str:
    """Why this build cannot reduce on the device `name`; empty if it can."""
    if not architectures:
        return "this build of neuron_fabric contains no device code"
    if code_for(architectures, capability):
        return ""
    return (f"this build of neuron_fabric contains device code for {architectures.replace(',', ', ')}, and {name} "
            f"has compute capability {capability[0]}.{capability[1]}")


def cost(gradient_bytes: int = 0) -> str:
    """What staging costs. gradient_bytes: per step; 0 if unknown."""
    return COST.format(f" ({units.byte_count(gradient_bytes)})" if gradient_bytes else "")
