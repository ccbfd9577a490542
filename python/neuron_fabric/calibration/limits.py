"""The limits of a profile: above the values seen while training was healthy."""

import math

_ERROR_MARGIN = 1.5
_NORM_MARGIN = 2.0
# The defaults of the profile: below them, no error and no norm makes a region fall back.
_MIN_ERROR_BUDGET = 0.1
_MIN_NORM_SPIKE = 10.0


def error_budget(max_error: float) -> float:
    return max(_MIN_ERROR_BUDGET, rounded_up(_ERROR_MARGIN * max_error))


def norm_spike(max_ratio: float) -> float:
    return max(_MIN_NORM_SPIKE, rounded_up(_NORM_MARGIN * max_ratio))


def rounded_up(value: float) -> float:
    """Rounds up to two significant digits."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.12g}")
