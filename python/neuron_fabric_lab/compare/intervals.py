"""Differences between pairs of runs, with confidence intervals."""

import math
import statistics
from dataclasses import dataclass

# Student's t, by degrees of freedom: 0.95 of the distribution is below.
_T95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
        1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725)


@dataclass(frozen=True)
class Difference:
    """To the baseline, paired by seed; the interval has the true mean 9 times in 10."""

    mean: float
    low: float | None = None  # unknown with one pair, or if a run diverged
    high: float | None = None


def t95(freedom: int) -> float:
    """The bound of a two-sided interval of 90 %."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    # The first terms of the Cornish-Fisher expansion around the normal distribution: accurate to 0.0002 here.
    z = statistics.NormalDist().inv_cdf(0.95)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def paired(own: dict[int, float], base: dict[int, float]) -> Difference | None:
    """From values by seed; None if no seed is in both."""
    differences = [own[seed] - base[seed] for seed in sorted(own.keys() & base.keys())]
    if not differences:
        return None
    if not all(map(math.isfinite, differences)):
        return Difference(sum(differences) / len(differences))
    middle = statistics.fmean(differences)
    if len(differences) == 1:
        return Difference(middle)
    half = t95(len(differences) - 1) * statistics.stdev(differences) / math.sqrt(len(differences))
    return Difference(middle, middle - half, middle + half)
