"""Small plots as inline SVG. Colours are names of CSS variables, so that one drawing works in light and
dark mode."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

PALE = frozenset({"dense", "faint", "orange", "pink", "sky"})  # colours that need dark letters
LABEL_GAP = 16  # between the labels of two limits
Point = tuple[float, float | None]  # step, value; no value is a gap
Span = tuple[float, float | None, float | None]  # step, minimum, maximum


@dataclass(frozen=True)
class Scale:
    """Maps low..high to a..b, linearly or by logarithm."""

    low: float
    high: float
    a: float
    b: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = ((math.log(self.low), math.log(self.high), math.log(value))
                            if self.is_log else (self.low, self.high, value))
        return self.a + (self.b - self.a) * (value - low) / (high - low or 1)

    def ticks(self, most: int) -> list[float]:
        return _log_ticks(self.low, self.high, most) if self.is_log else \
            _linear_ticks(self.low, self.high, most)


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    while (high - low) / step > most:
        step *= 2 if round(step / 10 ** math.floor(math.log10(step))) != 2 else 2.5
    return [tick * step for tick in range(math.ceil(low / step - 1e-9),
                                          math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first < 1:  # less than two powers of ten
        ticks = [digit * 10.0 ** power for power in range(first - 1, last + 1)
                 for digit in (1, 2, 5)]
        return [tick for tick in ticks if low <= tick <= high]
    stride = -(-(last - first + 1) // most)
    return [10.0 ** power for power in range(first, last + 1, stride)]


def axis_format(unit: str, high: float) -> Callable[[float], str]:
    """One unit for all ticks of an axis that ends at `high`."""
    scale, name = 1.0, ""
    if unit == "bytes":
        power = min(max(int(math.log10(high) // 3), 0), 6) if high > 0 else 0
        scale, name = 1000.0 ** power, " " + ("B", "kB", "MB", "GB", "TB", "PB", "EB")[power]
    elif unit == "seconds":
        scale, name = next(((scale, name) for scale, name in
                            ((1.0, " s"), (1e-3, " ms")) if high >= scale), (1e-6, " µs"))
    return lambda value: f"{value / scale:.6g}{name}"


def step_tick(x: Scale, step: float, bottom: float, width: float) -> str:
    """The number of the step, kept inside the drawing; empty between two steps."""
    if step != int(step):
        return ""
    text = f"{step:,.0f}"
    at = min(x(step), width - 3.6 * len(text))
    return (f'<path class="axis" d="M{x(step):.1f} {bottom}v4"/>'
            f'<text class="tick middle" x="{at:.1f}" y="{bottom + 17}">{text}</text>')


def colour(name: str) -> str:
    return f'style="--c:var(--{name})"'


class Plot:
    """Axes, and the marks between them."""

    LEFT, RIGHT, TOP, BOTTOM = 66, 14, 10, 40

    def __init__(self, steps: tuple[int, int], values: tuple[float, float], *, unit: str = "",
                 is_log: bool = False, width: int = 560, height: int = 250):
        self.width, self.height = width, height
        first, last = steps
        self.x = Scale(first - 0.5, last + 0.5, self.LEFT, width - self.RIGHT)
        self.y = Scale(values[0], values[1], height - self.BOTTOM, self.TOP, is_log)
        self._parts: list[str] = []
        self._over: list[str] = []
        self._limits: list[tuple[float, str]] = []  # position of a label, and its text
        self._draw_axes(axis_format(unit, values[1]))

    def _draw_axes(self, text: Callable[[float], str]) -> None:
        left, right, bottom = self.x.a, self.x.b, self.y.a
        for tick in self.y.ticks(6):
            y = self.y(tick)
            self._parts.append(f'<path class="grid" d="M{left} {y:.1f}H{right}"/>'
                               f'<text class="tick end" x="{left - 8}" y="{y + 4:.1f}">'
                               f"{escape(text(tick))}</text>")
        for tick in self.x.ticks(max(2, self.width // 90)):
            self._parts.append(step_tick(self.x, tick, bottom, self.width))
        self._parts.append(f'<path class="axis" d="M{left} {bottom}H{right}"/>'
                           f'<text class="tick middle" x="{(left + right) / 2:.0f}" '
                           f'y="{bottom + 34}">step</text>')

    def _place(self, step: float, value: float) -> str:
        top, bottom = self.y.b - 4, self.y.a
        if self.y.is_log:
            value = max(value, self.y.low)
        x, y = min(max(self.x(step), self.x.a), self.x.b), min(max(self.y(value), top), bottom)
        return f"{x:.1f} {y:.1f}"

    def line(self, points: Iterable[Point], name: str, kind: str = "") -> None:
        """`kind` "dashed" for predictions and limits."""
        path, pen, alone = [], "M", []
        points = [(step, value if value is None or not self.y.is_log or value > 0 else None)
                  for step, value in points]
        for place, (step, value) in enumerate(points):
            if value is None:
                pen = "M"
                continue
            path.append(pen + self._place(step, value))
            neighbours = points[max(place - 1, 0):place] + points[place + 1:place + 2]
            if all(other is None for _, other in neighbours):
                alone.append(path[-1] + "h0")
            pen = "L"
        if path:
            self._parts.append(f'<path class="line {kind}" {colour(name)} d="{"".join(path)}"/>')
        if alone:  # between gaps: a dot, since a line of one point is invisible
            self._parts.append(f'<path class="dots" {colour(name)} d="{"".join(alone)}"/>')

    def area(self, spans: Iterable[Span], name: str, kind: str = "area") -> None:
        """Between two values at each step; `kind` "band" for a range around a line."""
        for run in _without_gaps(spans):
            upper = "L".join(self._place(step, high) for step, _, high in run)
            lower = "L".join(self._place(step, low) for step, low, _ in reversed(run))
            self._parts.append(f'<path class="{kind}" {colour(name)} d="M{upper}L{lower}Z"/>')

    def level(self, value: float, name: str, label: str, title: str) -> None:
        """A limit, across the whole plot, with a tooltip."""
        if self.y.low <= value <= self.y.high:
            y = self.y(value)
            self._over.append(f'<path class="line dashed" {colour(name)} '
                              f'd="M{self.x.a} {y:.1f}H{self.x.b}"><title>{escape(title)}</title>'
                              "</path>")
            self._limits.append((y - 4, label))

    def _limit_labels(self) -> list[str]:
        """Beside their lines, or as near as the others allow; only the first ones if not all fit."""
        top, bottom = self.y.b + 2, self.y.a
        labels = sorted(self._limits[:int((bottom - top) / LABEL_GAP)])
        places = spread_out([y for y, _ in labels], top, bottom, LABEL_GAP)
        return [f'<text class="label limit end" x="{self.x.b}" y="{y:.1f}">{escape(text)}</text>'
                for y, (_, text) in zip(places, labels)]

    def marks(self, marks: Iterable[tuple[int, str]], name: str) -> None:
        """Thin vertical lines at steps, with a tooltip; one line if several share a pixel."""
        seen: dict[int, tuple[float, list[str]]] = {}
        for step, text in marks:
            x = self.x(step)
            seen.setdefault(round(x), (x, []))[1].append(text)
        for x, texts in seen.values():
            self._over.append(f'<path class="mark" {colour(name)} d="M{x:.1f} {self.y.b}'
                              f'V{self.y.a}"><title>{escape(_few(texts))}</title></path>')

    def above(self, points: Iterable[Point]) -> None:
        """Arrow heads where values leave the plot at its top."""
        heads = "".join(f"M{self.x(step) - 3:.1f} {self.y.b}h6l-3 -6z" for step, value in points
                        if value is not None and value > self.y.high)
        if heads:
            self._parts.append(f'<path class="above" d="{heads}"/>')

    def strips(self, strips: Sequence[tuple[float, float, str]]) -> None:
        """Tooltips: first step, last step, text."""
        for first, last, text in strips:
            left = max(self.x(first - 0.5), self.x.a)
            right = min(self.x(last + 0.5), self.x.b)
            self._parts.append(f'<rect class="strip" x="{left:.1f}" y="{self.y.b}" '
                               f'width="{max(right - left, 0.5):.1f}" '
                               f'height="{self.y.a - self.y.b}">'
                               f"<title>{escape(text)}</title></rect>")

    def svg(self, label: str) -> str:
        return (f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
                f'aria-label="{escape(label)}">{"".join(self._parts + self._over + self._limit_labels())}'
                "</svg>")


def spread_out(places: Sequence[float], low: float, high: float, gap: float) -> list[float]:
    """Ascending positions within low..high, moved as little as possible to be `gap` apart."""
    result: list[float] = []
    for place in places:
        result.append(max(place, result[-1] + gap if result else low))
    for at in reversed(range(len(result))):
        result[at] = min(result[at], result[at + 1] - gap if at + 1 < len(result) else high)
    return result


def _few(texts: list[str], most: int = 6) -> str:
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return "\n".join(texts[:most] + more)


def _without_gaps(spans: Iterable[Span]) -> Iterable[list[tuple[float, float, float]]]:
    run: list[tuple[float, float, float]] = []
    for step, low, high in spans:
        if low is not None and high is not None:
            run.append((step, low, high))
        elif run:
            yield run
            run = []
    if run:
        yield run


def limits(values: Iterable[float | None]) -> tuple[float, float]:
    """From 0 to a little above the maximum. A few outliers do not count: the first step, which compiles,
    would flatten everything else."""
    known = sorted(value for value in values if value is not None)
    if not known or known[-1] <= 0:
        return 0.0, 1.0
    usual = known[int(0.98 * (len(known) - 1))]
    return 0.0, 1.06 * (1.4 * usual if known[-1] > 3 * usual > 0 else known[-1])


def log_limits(values: Iterable[float | None]) -> tuple[float, float] | None:
    """None if there are no values."""
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return None
    low, high = min(known), max(known)
    return low / 1.25, max(high, low * 2) * 1.25
