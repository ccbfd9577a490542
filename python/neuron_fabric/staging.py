"""Gradients of a device that are staged through host memory: why, and one line in the log about it."""

import logging

import torch

from neuron_fabric import _C
from neuron_fabric.support import device_path

logger = logging.getLogger(__name__)

_is_logged = False


def why_not_on_device(device: torch.device) -> str:
    """Why this build cannot reduce gradients on the device; empty if it can, and for the host."""
    if device.type != "cuda":
        return ""
    return device_path.why_not(_C.architectures, torch.cuda.get_device_name(device),
                               torch.cuda.get_device_capability(device))


def log_staging(why: str, gradient_bytes: int, can_rebuild: bool) -> None:
    """Logs what the missing device path costs and how to get it, once per process.

    gradient_bytes: per step; 0 if unknown.
    can_rebuild: another build has the device path; otherwise `why` names the setting that excludes it.
    """
    global _is_logged
    if not _is_logged:
        _is_logged = True
        remedy = f"; to reduce on the device, build with {device_path.REBUILD}" if can_rebuild else ""
        logger.warning("CUDA gradients are staged through host memory: %s; %s%s", why,
                       device_path.cost(gradient_bytes), remedy)
