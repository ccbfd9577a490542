"""CUDA: whether PyTorch, the driver, the GPUs and the extension work together."""

import re
from pathlib import Path

from .finding import Finding, ok, warning
from .probe import Facts

MIN_CAPABILITY = (8, 0)
# The targets of CMakePresets.json, by major version; newer GPUs use the PTX of the last.
COMPILED = {8: "sm_80", 9: "sm_90"}
BUILD = "`scripts/build.sh release_cuda nf nf_python` in a checkout"
DRIVER = Path("/proc/driver/nvidia/version")


def driver_version() -> str | None:
    """The version of the driver; None without a driver."""
    try:
        found = re.search(r"Kernel Module.*?(\d+\.[\d.]+)", DRIVER.read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1] if found else "of an unknown version"


def check_cuda(torch: Facts, devices: Facts, driver: str | None) -> Finding:
    built = torch["cuda"] and f"PyTorch is built for CUDA {torch['cuda']}"
    has_driver = f"driver {driver}" if driver else "no driver"
    if "error" in devices:
        return warning("CUDA", f"{built}, {has_driver}: {devices['error']}",
                       "Check whether nvidia-smi runs; training on the host works without it.")
    cards = devices["cards"]
    if cards:
        return ok("CUDA", f"{built}, {has_driver}, {', '.join(card['name'] for card in cards)}")
    if driver and not built:
        return warning("CUDA", f"PyTorch is built without it, and there is a {has_driver}",
                       "Install a CUDA build of PyTorch, or train on the host.")
    if driver:
        return warning("CUDA", f"{built}, {has_driver}, but no GPU is visible",
                       "Check nvidia-smi and CUDA_VISIBLE_DEVICES; the driver may be too old for that CUDA.")
    return ok("CUDA", f"{built or 'PyTorch is built without it'}, no device: reduces on the host")


def check_cards(cards: list[Facts], extension: Facts) -> Finding | None:
    """Whether gradients are reduced on the device; None without a GPU or an extension."""
    if not cards or "error" in extension:
        return None
    if extension["devices"] != "cuda":
        return warning("device sums", "the extension has no CUDA: gradients go through host memory",
                       f"Build it with CUDA: {BUILD}.")
    old = [card for card in cards if tuple(card["capability"]) < MIN_CAPABILITY]
    if old:
        name, (major, minor) = old[0]["name"], old[0]["capability"]
        return warning("device sums", f"{name} has capability {major}.{minor}, and the build needs 8.0",
                       f"Add it to CMAKE_CUDA_ARCHITECTURES of the preset, then build: {BUILD}.")
    forms = {COMPILED.get(card["capability"][0], "PTX of sm_90, compiled on first use") for card in cards}
    return ok("device sums", ", ".join(sorted(forms)))


def check_nccl(nccl: str | None, cards: list[Facts]) -> Finding:
    if nccl:
        return ok("NCCL", f"{nccl}, in PyTorch")
    if cards:
        return warning("NCCL", "not in this PyTorch: gradients of a GPU cannot be reduced on it",
                       "Install a CUDA build of PyTorch with NCCL.")
    return ok("NCCL", "not in this PyTorch; only training on GPUs needs it")
