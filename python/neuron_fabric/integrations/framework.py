"""Code that the integrations share."""

import logging
from collections.abc import Callable

import torch
from torch.nn.parallel import DistributedDataParallel

logger = logging.getLogger(__name__)


def missing(package: str, module: str) -> ImportError:
    return ImportError(f"{module} needs the package {package}, which is not installed: "
                       f"pip install {package}")


def is_single_process(model: torch.nn.Module, processes: int) -> bool:
    """True, with a warning, if there is one process and no DDP around the model: a run for debugging,
    or a job that was not started with a launcher."""
    is_ddp = isinstance(getattr(model, "_orig_mod", model), DistributedDataParallel)
    if is_ddp or processes > 1:
        return False
    logger.warning("neuron_fabric: the job has one process and no DistributedDataParallel model: there "
                   "are no gradients to send, and the fabric is a no-op")
    return True


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The model without DDP and torch.compile() around it."""
    while True:
        if isinstance(model, DistributedDataParallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


class StepLoss:
    """The loss of a step that the framework computes in micro-batches, each loss already divided by
    their number. Reads the device once per step."""

    def __init__(self) -> None:
        self._sum: torch.Tensor | None = None

    def add(self, loss: object) -> None:
        if torch.is_tensor(loss):
            loss = loss.detach()
            self._sum = loss if self._sum is None else self._sum + loss

    def observe_with(self, observe: Callable[[torch.Tensor], None]) -> None:
        """Calls observe(sum) if there was a loss since the last call."""
        if self._sum is not None:
            observe(self._sum)
            self._sum = None
