"""One training run with simulated workers. On a GPU the whole step is one CUDA graph, kept for all seeds of an arm."""

import math
from dataclasses import dataclass
from functools import cache

import torch

from .arms import SUPER_GROUP, Arm
from .networks import Network
from .reduction import Reduction, compiled, floored

WARM_UP = 0.1       # the share of the steps with a rising rate
LAST = 0.1          # the share of the steps whose mean loss counts as the training loss
PRACTICE = 3        # steps before a graph is captured
RATES = {("bytes", "adamw"): 4e-4, ("bytes", "sgd"): 0.3, ("pictures", "adamw"): 1e-3, ("pictures", "sgd"): 0.1}


@cache
def _pool():
    return torch.cuda.graph_pool_handle()


@dataclass(frozen=True)
class Optimizer:
    name: str  # adamw or sgd
    rate: float

    @property
    def decay(self) -> float:
        return 0.1 if self.name == "adamw" else 5e-4


def adamw(values, gradient, first, second, rate, step, decay):
    first.mul_(0.9).add_(gradient, alpha=0.1)
    second.mul_(0.95).add_(gradient * gradient, alpha=0.05)
    count = (step + 1).float()
    corrected = (second / (1 - 0.95**count)).sqrt() + 1e-8
    values.mul_(1 - rate * decay).sub_(rate * first / ((1 - 0.9**count) * corrected))


def sgd(values, gradient, first, second, rate, step, decay):
    first.mul_(0.9).add_(gradient + decay * values)
    values.sub_(rate * first)


class Trainer:
    """All runs of one arm on one task."""

    def __init__(self, task, network: Network, arm: Arm, optimizer: Optimizer, steps: int, probes: list[int]) -> None:
        self.task, self.network, self.optimizer, self.steps, self.probes = task, network, optimizer, steps, probes
        device = network.flat.device
        self.on_gpu = device.type == "cuda"
        self.reduction = Reduction(arm, network, self.on_gpu)
        update = adamw if optimizer.name == "adamw" else sgd
        self.update = compiled(update) if self.on_gpu else update
        self.moments = [torch.zeros_like(part) for part in (self.network.flat, self.network.flat,
                                                            self.network.norms.detach(), self.network.norms.detach())]
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.losses = torch.zeros(steps, device=device)
        self.rates = torch.tensor([optimizer.rate * self.factor(step) for step in range(steps)], device=device)
        self.batches = task.draw(0, steps)
        self.graph: torch.cuda.CUDAGraph | None = None

    def factor(self, step: int) -> float:
        warm_up = max(1, round(WARM_UP * self.steps))
        if step < warm_up:
            return (step + 1) / warm_up
        return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, self.steps - warm_up)))

    def start(self, seed: int) -> None:
        self.network.start(seed)
        self.reduction.start()
        for values in [*self.moments, self.step, self.losses]:
            values.zero_()
        self.batches.copy_(self.task.draw(seed, self.steps))

    def advance(self, measured: bool = False) -> dict[str, float]:
        row = self.batches.index_select(0, self.step.view(1))[0]
        loss, norms = self.network.backward(*self.task.cut(row))
        v = self.history().clone() if measured else None
        mean = self.reduction(self.step)
        figures = self.figures(mean, v) if v is not None else {}
        rate = self.rates.index_select(0, self.step.view(1))
        with torch.no_grad():
            self.update(self.network.flat, mean.view(-1), *self.moments[:2], rate, self.step, self.optimizer.decay)
            self.update(self.network.norms, norms, *self.moments[2:], rate, self.step, 0.0)
        self.losses.index_copy_(0, self.step.view(1), loss.view(1))
        self.step.add_(1)
        return figures

    def history(self) -> torch.Tensor:
        """The v by which errors are measured: the same for all arms, whatever v they quantise by."""
        return self.moments[1].view_as(self.reduction.v) if self.optimizer.name == "adamw" else self.reduction.v

    def figures(self, mean: torch.Tensor, v: torch.Tensor) -> dict[str, float]:
        """The error of the mean by its own norm, and as an optimizer that divides by sqrt(v) feels it."""
        exact = self.network.gradients.float().mean(0).view(-1, SUPER_GROUP)
        error = (mean - exact) ** 2
        return {"vnmse": (error.sum() / (exact**2).sum()).item(), "felt": (error / floored(v)).mean().item()}

    def capture(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(PRACTICE):
                self.advance()
        torch.cuda.current_stream().wait_stream(stream)
        # Graphs share their memory: none of them runs while another does, and none leaves a result in it.
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=_pool()):
            self.advance()

    def run(self, seed: int) -> dict[str, object]:
        self.start(seed)
        if self.on_gpu and self.graph is None:
            self.capture()
            self.start(seed)
        felt = {}
        for step in range(self.steps):
            if step in self.probes:
                felt[str(step)] = self.advance(measured=True)
            elif self.graph is not None:
                self.graph.replay()
            else:
                self.advance()
        last = max(1, round(LAST * self.steps))
        loss = self.evaluate()
        return {"loss": loss, "training_loss": self.losses[-last:].mean().item(), "errors": felt,
                "diverged": not math.isfinite(loss), "values": len(self.network.flat)}

    @torch.no_grad()
    def evaluate(self) -> float:
        losses = [(self.network.loss(*batch), len(batch[0])) for batch in self.task.held_back()]
        return (sum(loss * count for loss, count in losses) / sum(count for _, count in losses)).item()
