"""The mean of the workers' gradients as the ranks of a job would receive it."""

from functools import cache

import torch

from .arms import SUPER_GROUP, TINY, Arm
from .networks import Network
from .quantisers import WIDEST, dither, draws, eden, key_of, width_gains

FLOOR = 0.01     # of the mean v of a super-group
AVERAGED = 0.1   # the share of a new error in the averaged feedback


def floored(v: torch.Tensor, floor: float | torch.Tensor = FLOOR) -> torch.Tensor:
    """v, (super-groups, 256), at least this share of its super-group's mean. Super-groups without any get the mean
    of all."""
    mean = v.mean(1, keepdim=True)
    return torch.where(mean > 0, torch.maximum(v, floor * mean), v.mean())


def factors_of(v: torch.Tensor, step: torch.Tensor, units: int, pow2: bool) -> torch.Tensor:
    """What values are multiplied by, (super-groups, 256); 1 before there is a history. A mean of few steps scatters,
    so the floor of v begins at the mean of its super-group."""
    floor = (1 / step.clamp_min(1).float()).clamp_min(FLOOR)
    shared = floored(v, floor).view(len(v), -1, units).mean(2, keepdim=True)
    factor = torch.rsqrt(shared.clamp_min(TINY))
    if pow2:
        factor = torch.exp2(torch.round(torch.log2(factor)))
    factor = torch.where(step > 0, factor, 1)
    return factor.expand(-1, -1, units).reshape(v.shape)


def contribution(total, values, factor, widths, key, error, quantise, feedback):
    """`total` with the decoded values of a worker added, and the new error of the worker if there is feedback."""
    values = values.float()
    if feedback != "none":
        values = values + error.float()
    decoded = quantise(values * factor, widths, key) / factor
    if feedback == "plain":
        error = values - decoded
    elif feedback == "average":
        error = error.float() + AVERAGED * (values - decoded - error.float())
    return total + decoded, error


def energies(gradients: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Of each super-group, added over workers."""
    scaled = gradients.float().view(len(gradients), -1, SUPER_GROUP) * factor
    return (scaled * scaled).sum((0, 2))


def remember(v: torch.Tensor, mean: torch.Tensor, beta: float) -> None:
    v.mul_(beta).add_(mean * mean, alpha=1 - beta)


@cache
def compiled(function):
    """One for all arms, so that arms with equal graphs share their kernels."""
    torch._dynamo.config.recompile_limit = 64
    return torch.compile(function, dynamic=False)


class Reduction:
    """Quantises the gradients of every worker once (`direct`) and returns their mean."""

    def __init__(self, arm: Arm, network: Network, on_gpu: bool) -> None:
        self.arm, self.network = arm, network
        workers, count = network.gradients.shape
        device = network.flat.device
        self.v = torch.zeros(count // SUPER_GROUP, SUPER_GROUP, device=device)
        self.errors = None
        if arm.feedback != "none":
            self.errors = torch.zeros(workers, *self.v.shape, device=device, dtype=network.gradients.dtype)
        self.members = torch.nn.functional.one_hot(network.owners()).to(device).float().T.contiguous()
        if not arm.is_dense:
            self.quantise = dither if arm.quantiser == "dither" else eden(device, network.gradients.dtype)
            self.gains = torch.tensor(width_gains(arm.quantiser)[arm.lowest_width - 1:], device=device)
        self.contribution, self.energies, self.factors, self.remember = (
            compiled(function) if on_gpu else function for function in (contribution, energies, factors_of, remember))

    def start(self) -> None:
        self.v.zero_()
        if self.errors is not None:
            self.errors.zero_()

    def own(self, worker: int) -> torch.Tensor:
        return self.network.gradients[worker].view(self.v.shape)

    def __call__(self, step: torch.Tensor) -> torch.Tensor:
        """The decoded mean, (super-groups, 256). `step` is a scalar on the device."""
        arm, workers = self.arm, len(self.network.gradients)
        if arm.is_dense:
            mean = self.network.gradients.float().mean(0).view(self.v.shape)
            self.remember(self.v, mean, arm.beta)
            return mean
        factor = torch.ones((1, 1), device=self.v.device)
        if arm.units:
            factor = self.factors(self.v, step, arm.units, arm.pow2)
        widths = self.widths(factor, step)
        total = torch.zeros_like(self.v)
        for worker in range(workers):
            error = None if self.errors is None else self.errors[worker]
            total, new_error = self.contribution(total, self.own(worker), factor, widths, key_of(step, worker), error,
                                                 self.quantise, arm.feedback)
            if error is not None:
                error.copy_(new_error)
        mean = total / workers
        self.remember(self.v, mean, arm.beta)
        return mean

    def widths(self, factor: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        arm, lowest, count = self.arm, self.arm.lowest_width, len(self.v)
        wider = (arm.code_bits - lowest) * count
        if arm.widths == "even":
            chosen = draws(key_of(step, 63), self.v.shape[:1]) & 0xFFFFFF
            return lowest + (chosen.float() * 2.0**-24 < wider / count).int()
        need = self.energies(self.network.gradients, factor)
        if arm.felt:
            need = need * torch.where(step > 0, (1 / floored(self.v).clamp_min(TINY)).mean(1), 1)
        if arm.alpha > 0:
            mass = (self.members @ need).clamp_min(TINY)
            need = need * (self.members.T @ (self.members.sum(1) / mass) ** arm.alpha)
        worth = torch.log2(need.clamp_min(TINY))[:, None] + self.gains[: WIDEST - lowest]
        least = worth.flatten().sort(descending=True).values[max(0, int(wider) - 1)]
        return lowest + ((worth >= least).sum(1).int() if int(wider) > 0 else torch.zeros_like(need).int())
