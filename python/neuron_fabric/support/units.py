"""Numbers for people: three significant digits and a unit."""

import math
from collections.abc import Mapping

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def number(value: float | None) -> str:
    """1.23, 45.6, 789, 1,234,567, 4.56e-07; nan and inf unchanged; a dash for None."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-4:
        return f"{value:.2e}"
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return f"{value:.6f}".rstrip("0") if "e" in text else text


def counted(value: int, noun: str) -> str:
    """1 step, 3,000 steps."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def byte_count(value: float | None) -> str:
    """1.23 MB, decimal like link speeds."""
    if value is None:
        return "-"
    scaled, unit = float(value), 0
    while abs(scaled) >= 999.5 and unit + 1 < len(_BYTES):
        scaled, unit = scaled / 1000, unit + 1
    return f"{scaled:.3g} {_BYTES[unit]}"


def seconds(value: float | None) -> str:
    """1.23 s, 45.6 ms; long times as 12.3 min and 4.56 h."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 3600:
        return f"{value / 3600:.3g} h"
    if size >= 120:
        return f"{value / 60:.3g} min"
    for scale, unit in _SECONDS:
        if size >= scale * 0.9995:
            return f"{value / scale:.3g} {unit}"
    return "0 s" if value == 0 else f"{value:.1e} s"


def by_time(milliseconds: Mapping[str, float]) -> str:
    """The shortest first: tree 1.23 ms, ring 45.6 ms."""
    ordered = sorted(milliseconds.items(), key=lambda item: item[1])
    return ", ".join(f"{name} {seconds(ms / 1e3)}" for name, ms in ordered)


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def percent(share: float | None) -> str:
    if share is None:
        return "-"
    if 0 < share < 0.001:
        return "<0.1 %"
    return f"{100 * share:.3g} %"
