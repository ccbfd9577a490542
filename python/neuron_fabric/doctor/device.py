"""CUDA: whether PyTorch, the driver, the GPUs and the extension work together."""

import re
from pathlib import Path

from neuron_fabric.support import device_path

from .finding import Finding, ok, warning
from .probe import Facts

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
    architectures = extension["architectures"]
    for card in cards:
        if why := device_path.why_not(architectures, card["name"], tuple(card["capability"])):
            return warning("device sums", f"{why}; {device_path.cost()}",
                           f"Build on this machine: {device_path.REBUILD}.")
    return ok("device sums", ", ".join(sorted(
        {device_path.code_for(architectures, tuple(card["capability"])) for card in cards})))


def check_nccl(nccl: str | None, cards: list[Facts]) -> Finding:
    if nccl:
        return ok("NCCL", f"{nccl}, in PyTorch")
    if cards:
        return warning("NCCL", "not in this PyTorch: gradients of a GPU cannot be reduced on it",
                       "Install a CUDA build of PyTorch with NCCL.")
    return ok("NCCL", "not in this PyTorch; only training on GPUs needs it")
