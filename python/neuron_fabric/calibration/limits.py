"""Where the limits of a profile stand: above what was seen while nothing was wrong."""

import math

ERROR_MARGIN = 1.5
NORM_MARGIN = 2.0
LEAST_NORM_SPIKE = 10.0  # the profile's own default


def rounded_up(value: float) -> float:
    """To two digits that count."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.12g}")
