"""Where the limits of a profile stand: above what was seen while nothing was wrong."""

import math

_ERROR_MARGIN = 1.5
_NORM_MARGIN = 2.0
# The profile's own defaults: below them, no error and no norm calls for full precision.
_LEAST_ERROR_BUDGET = 0.1
_LEAST_NORM_SPIKE = 10.0


def error_budget(most_error: float) -> float:
    return max(_LEAST_ERROR_BUDGET, rounded_up(_ERROR_MARGIN * most_error))


def norm_spike(most_ratio: float) -> float:
    return max(_LEAST_NORM_SPIKE, rounded_up(_NORM_MARGIN * most_ratio))


def rounded_up(value: float) -> float:
    """To two digits that count."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.12g}")
