"""Quantisers of values in super-groups of 256: subtractive dither, and EDEN behind a random rotation.

Both return what a receiver decodes. All functions are pure and free of host synchronisation, so that a CUDA graph
can hold them.
"""

import math
from functools import cache

import numpy as np
import torch

from .arms import GROUP, SUPER_GROUP, TINY

WIDEST = 8
BINS = 4096   # of the table that rounds a magnitude to its level
REACH = 8.0   # magnitudes beyond it round like this one, in standard deviations
MAX_SCALE, MIN_SCALE = 19, 5


def draws(key: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Random int32 values: a hash of the key, an int32 scalar, and the element."""
    count = math.prod(shape)
    bits = torch.arange(count, dtype=torch.int32, device=key.device) ^ key
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * 0x7FEB352D
    bits = (bits ^ ((bits >> 15) & 0x1FFFF)) * (0x846CA68B - (1 << 32))
    return (bits ^ ((bits >> 16) & 0xFFFF)).view(shape)


def key_of(step: torch.Tensor, worker: int) -> torch.Tensor:
    """Keys of the workers of a step; keys are far apart in all bits."""
    key = (step.to(torch.int32) * 64 + worker) * 0x2545F491
    return (key ^ ((key >> 15) & 0x1FFFF)) * 0x6C8E9CF5


def dither(values: torch.Tensor, widths: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """values: (super-groups, 256). A uniform grid over plus and minus the peak of each group of 16, 4-bit scales."""
    groups = values.view(-1, SUPER_GROUP // GROUP, GROUP)
    peaks = groups.abs().amax(2)
    unit = peaks.amax(1, keepdim=True) / MAX_SCALE * (1 + 2.0**-8)  # as wide as rounding up to BF16 on average
    scales = torch.ceil(peaks / unit.clamp_min(TINY)).clamp(MIN_SCALE, MAX_SCALE)
    top = torch.exp2(widths.float())[:, None] - 1
    step = (torch.where(peaks > 0, scales, 0) * unit * (2 * (1 + 2.0**-13)) / top)[:, :, None]
    middle = top[:, :, None] / 2
    noise = ((draws(key, groups.shape) & 0xFFFFFF).float() + 0.5) * 2.0**-24 - 0.5
    position = groups / step.clamp_min(TINY) + noise + middle
    codes = torch.minimum(torch.round(position).clamp_min(0), 2 * middle)
    return ((codes - middle - noise) * step).view(values.shape)


@cache
def normal_levels(width: int) -> tuple[np.ndarray, float]:
    """Lloyd-Max levels of the standard normal distribution, and their mean squared error."""
    levels = 1 << width
    grid = np.linspace(-REACH, REACH, 1 << 17)
    weight = np.exp(-grid**2 / 2)
    weight /= weight.sum()
    mass = np.concatenate([[0], np.cumsum(weight)])
    moment = np.concatenate([[0], np.cumsum(weight * grid)])
    # The density of good levels is the cube root of that of the values.
    wide = np.cumsum(np.exp(-grid**2 / 6))
    found = np.interp((np.arange(levels) + 0.5) / levels, wide / wide[-1], grid)
    for _ in range(300):
        cut = np.searchsorted(grid, (found[1:] + found[:-1]) / 2)
        edges = np.concatenate([[0], cut, [len(grid)]])
        found = np.diff(moment[edges]) / np.maximum(np.diff(mass[edges]), 1e-300)
    found = (found - found[::-1]) / 2
    nearest = found[np.searchsorted((found[1:] + found[:-1]) / 2, grid)]
    return found, float((weight * (grid - nearest) ** 2).sum())


def rounding_table(device: torch.device) -> torch.Tensor:
    """(WIDEST + 1, BINS): the level of a magnitude, by width and bin."""
    centres = (np.arange(BINS) + 0.5) * (REACH / BINS)
    table = np.zeros((WIDEST + 1, BINS), dtype=np.float32)
    for width in range(1, WIDEST + 1):
        levels = normal_levels(width)[0]
        table[width] = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, centres)]
    return torch.from_numpy(table).to(device)


def hadamard(device: torch.device, kind: torch.dtype) -> torch.Tensor:
    matrix = torch.ones(1, 1)
    while len(matrix) < SUPER_GROUP:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return (matrix / math.sqrt(SUPER_GROUP)).to(device, kind)


def signs(bits: torch.Tensor, place: int) -> torch.Tensor:
    return (1 - 2 * ((bits >> place) & 1)).float()


class Eden:
    """Two rounds of random signs and a Hadamard transform, Lloyd-Max levels, and the scale that makes the result
    unbiased, in BF16."""

    def __init__(self, device: torch.device, kind: torch.dtype) -> None:
        self.table = rounding_table(device)
        self.matrix = hadamard(device, kind)

    def __call__(self, values: torch.Tensor, widths: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        bits, kind = draws(key, values.shape), self.matrix.dtype
        turned = (values * signs(bits, 9)).to(kind) @ self.matrix
        turned = ((turned.float() * signs(bits, 17)).to(kind) @ self.matrix).float()
        energy = (turned * turned).sum(1, keepdim=True)
        unit = turned * torch.rsqrt(energy.clamp_min(TINY)) * math.sqrt(SUPER_GROUP)
        place = (unit.abs() * (BINS / REACH)).to(torch.int64).clamp_max(BINS - 1)
        levels = self.table.view(-1)[widths.to(torch.int64)[:, None] * BINS + place] * torch.sign(unit)
        scale = energy / (turned * levels).sum(1, keepdim=True).clamp_min(TINY)
        rounded = torch.where(energy > 0, scale, 0).bfloat16().float() * levels
        back = (rounded.to(kind) @ self.matrix).float() * signs(bits, 17)
        return (back.to(kind) @ self.matrix).float() * signs(bits, 9)


@cache
def eden(device: torch.device, kind: torch.dtype) -> Eden:
    return Eden(device, kind)


def width_gains(quantiser: str) -> list[float]:
    """log2 of what another bit gains per unit of energy, for widths of 1 to WIDEST - 1."""
    if quantiser == "dither":
        errors = [1 / (2**width - 1) ** 2 for width in range(1, WIDEST + 1)]
    else:
        errors = [error / (1 - error) for error in (normal_levels(width)[1] for width in range(1, WIDEST + 1))]
    return [math.log2(one - next_one) for one, next_one in zip(errors, errors[1:], strict=False)]
