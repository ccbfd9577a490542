"""The timeline of admission: one row per region, coloured by reason, with its decisions."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from ..telemetry import reasons
from ..telemetry.records import DENSE_ROUTE, Decision
from .columns import Column, RegionCell, fewer
from .run import Run
from .svg import Scale, step_tick

MAX_ROWS = 60
MAX_SEGMENTS = 8000  # in all rows
WIDTH, LEFT, RIGHT, TOP, ROW, BAR, BOTTOM = 1160, 130, 14, 2, 50, 20, 42
LETTER = 6.4  # pixels per letter of a label

# In the order of the legend.
MEANINGS = {reason.name: reason.text for reason in reversed(reasons.TABLE)} | {
    "by_profile": "fp32 by its profile"}


@dataclass
class Segment:
    """Consecutive steps of a region with one reason and route."""

    first: int
    last: int
    reason: str
    route: str

    @property
    def kind(self) -> str:
        """The reason; `by_profile` for an admitted region that is dense by its profile."""
        return "by_profile" if (self.reason, self.route) == ("admitted", DENSE_ROUTE) \
            else self.reason


def _worst(cell: RegionCell) -> tuple[str, str]:
    """The most important state in a column."""
    rank = {reason: place for place, reason in enumerate(reasons.REASONS)}
    return min(cell.states, key=lambda state: (rank.get(state[0], len(rank)), state))


def segments(columns: list[Column], region: str) -> list[Segment]:
    result: list[Segment] = []
    for column in columns:
        cell = column.cell.regions.get(region)
        if cell is None or not cell.states:
            continue
        reason, route = _worst(cell)
        last = result[-1] if result else None
        if last and (last.reason, last.route, last.last + 1) == (reason, route, column.first):
            last.last = column.last
        else:
            result.append(Segment(column.first, column.last, reason, route))
    return result


def timeline(run: Run) -> str:
    """The card with legend and drawing."""
    names = list(run.summary.regions)[:MAX_ROWS]
    left_out = len(run.summary.regions) - len(names)
    columns = fewer(run.columns, MAX_SEGMENTS // max(len(names), 1))
    x = Scale(columns[0].first - 0.5, columns[-1].last + 0.5, LEFT, WIDTH - RIGHT)
    by_region: dict[str, list[Decision]] = {name: [] for name in names}
    for decision in run.decisions:
        by_region.setdefault(decision.region, []).append(decision)
    rows = {name: segments(columns, name) for name in names}
    height = TOP + ROW * len(names) + BOTTOM
    parts = list(_axis(x, height))
    for place, name in enumerate(names):
        parts += _row(x, TOP + ROW * place, name, rows[name], by_region[name])
    kinds = {segment.kind for row in rows.values() for segment in row}
    about = "tall bars are low-bit, flat ones dense; triangles are fallbacks, dots other decisions"
    if left_out:
        about += f"; {left_out} more regions are in the table below"
    return ('<figure class="card wide"><figcaption><h3>Admission</h3>'
            f"<p>{escape(about)}</p></figcaption>{_legend(kinds)}"
            f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="Admission of regions over steps">{"".join(parts)}</svg></div></figure>')


def _legend(kinds: set[str]) -> str:
    known = [kind for kind in MEANINGS if kind in kinds]
    keys = "".join(f'<span class="key" title="{escape(MEANINGS.get(kind, kind))}">'
                   f'<i class="area" style="--c:{reason_colour(kind)}"></i>'
                   f'{escape("fp32 by profile" if kind == "by_profile" else kind)}</span>'
                   for kind in [*known, *sorted(kinds - set(known))])
    return f'<div class="legend">{keys}</div>'


def reason_colour(kind: str) -> str:
    """The colour of a reason. Names from a file never get into a style."""
    return f"var(--r-{kind})" if kind in MEANINGS else "var(--faint)"


def _axis(x: Scale, height: int) -> Iterator[str]:
    bottom = height - BOTTOM
    for tick in x.ticks(10):
        if tick == int(tick):
            yield (f'<path class="grid" d="M{x(tick):.1f} {TOP}V{bottom}"/>'
                   + step_tick(x, tick, bottom, WIDTH))
    yield (f'<path class="axis" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>'
           f'<text class="tick middle" x="{(LEFT + WIDTH) / 2:.0f}" y="{bottom + 34}">step</text>')


def _row(x: Scale, top: float, name: str, row: list[Segment], decisions: list[Decision]
         ) -> Iterator[str]:
    middle = top + ROW - 10 - BAR / 2
    yield (f'<text class="name end" x="{LEFT - 10}" y="{middle + 4:.1f}">'
           f"{escape(_shorten(name, 15))}<title>{escape(name)}</title></text>")
    for segment in row:
        yield _bar(x, middle, name, segment)
    yield from _dots(x, middle + BAR / 2 + 3, [d for d in decisions if not d.is_fallback])
    yield from _triangles(x, middle - BAR / 2 - 1, [d for d in decisions if d.is_fallback])


def _bar(x: Scale, middle: float, name: str, segment: Segment) -> str:
    left, right = x(segment.first - 0.5), x(segment.last + 0.5)
    width = max(right - left, 1)
    height = BAR if segment.route != DENSE_ROUTE else BAR * 0.4
    label = ""
    texts = [f"{segment.reason} · {segment.route}"] if height == BAR else []
    texts += [segment.reason] if segment.kind != "by_profile" else []
    text = next((text for text in texts if _fits(text, width)), None)
    if text and height == BAR:
        tone = "on-pale" if segment.reason == "probation" else "on"
        label = (f'<text class="label {tone}" x="{left + 7:.1f}" y="{middle + 4:.1f}">'
                 f"{escape(text)}</text>")
    elif text:  # below a flat bar
        label = (f'<text class="label" x="{left + 7:.1f}" y="{middle + 15:.1f}">'
                 f"{escape(text)}</text>")
    title = (f"{name}: steps {segment.first:,} to {segment.last:,}\n{segment.reason}, route "
             f"{segment.route}\n{MEANINGS.get(segment.kind, '')}")
    return (f'<rect x="{left:.1f}" y="{middle - height / 2:.1f}" width="{width:.1f}" '
            f'height="{height:g}" style="fill:{reason_colour(segment.kind)}">'
            f"<title>{escape(title)}</title></rect>{label}")


def _fits(text: str, width: float) -> bool:
    return len(text) * LETTER + 14 < width


def _describe(decision: Decision) -> str:
    return (f"step {decision.step:,}, epoch {decision.epoch:,}: from {decision.before} to "
            f"{decision.after}, route {decision.route}")


def _spaced(x: Scale, decisions: list[Decision], gap: float
            ) -> Iterator[tuple[float, str, Decision]]:
    """Decisions that share a position make one mark: position, text, and the first of them."""
    groups: list[tuple[float, list[Decision]]] = []
    for decision in decisions:
        place = x(decision.step)
        if groups and 0 <= place - groups[-1][0] < gap:
            groups[-1][1].append(decision)
        else:
            groups.append((place, [decision]))
    for place, group in groups:
        texts = [_describe(decision) for decision in group[:8]]
        texts += [f"and {len(group) - 8} more"] if len(group) > 8 else []
        yield place, "\n".join(texts), group[0]


def _dots(x: Scale, y: float, decisions: list[Decision]) -> Iterator[str]:
    for place, text, decision in _spaced(x, decisions, 4):
        yield (f'<circle class="dot" cx="{place:.1f}" cy="{y:.1f}" r="2" '
               f'style="fill:{reason_colour(decision.after)}">'
               f"<title>{escape(text)}</title></circle>")


def _triangles(x: Scale, y: float, decisions: list[Decision]) -> Iterator[str]:
    marks = list(_spaced(x, decisions, 6))
    ends = [place - 6 for place, _, _ in marks[1:]] + [float(WIDTH)]
    for (place, text, decision), end in zip(marks, ends):
        labels = [f"{decision.after} {decision.step:,}", decision.after]
        shown = next((label for label in labels if place + 8 + len(label) * LETTER < end), "")
        yield (f'<path style="fill:{reason_colour(decision.after)}" d="M{place - 5:.1f} {y - 8:.1f}'
               f'h10l-5 8z"><title>{escape(text)}</title></path>')
        if shown:
            yield f'<text class="label" x="{place + 7:.1f}" y="{y - 3:.1f}">{escape(shown)}</text>'


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most - 1] + "…"
