"""The plots over steps: bytes, time, loss, norms and errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

from ..support import units
from ..telemetry.records import DENSE_ROUTE, Decision
from .columns import Column, Spread, StepCell, fewer
from .run import Run
from .svg import Plot, colour, limits, log_limits

MAX_STRIPS = 200  # areas with a tooltip
MAX_SERIES = 60  # regions per plot
SERIES_COLOURS = ("blue", "orange", "green", "pink", "sky", "brown", "purple", "grey")
LOW_BIT_COLOURS = ("blue", "green", "purple", "orange", "brown", "pink", "sky")

Columns = list[Column]


@dataclass
class Figure:
    title: str
    about: str
    legend: list[tuple[str, str, str]]  # name, colour, kind: area, line or dashed
    svg: str
    is_wide: bool = False  # full page width

    def html(self) -> str:
        keys = "".join(f'<span class="key"><i class="{kind}" {colour(name)}></i>{escape(text)}'
                       "</span>" for text, name, kind in self.legend)
        svg = f'<div class="scroll">{self.svg}</div>' if self.is_wide else self.svg
        return (f'<figure class="card"><figcaption><h3>{escape(self.title)}</h3>'
                f"<p>{escape(self.about)}</p></figcaption>"
                f'<div class="legend">{keys}</div>{svg}</figure>')


def route_colours(run: Run) -> dict[str, str]:
    """Dense routes are grey; the others get colours in the order of the profile."""
    routes = [region.route for region in run.attach.regions]
    routes += [region.route for region in run.summary.regions.values()]
    routes += [parameter.route for parameter in run.attach.parameters]
    routes += sorted({route for column in run.columns for route in column.cell.bytes})
    fixed = {DENSE_ROUTE: "dense", "bf16": "half", "fp16": "half"}
    others = [route for route in dict.fromkeys(routes) if route not in fixed]
    return fixed | {route: LOW_BIT_COLOURS[place % len(LOW_BIT_COLOURS)]
                    for place, route in enumerate(others)}


def figures(run: Run) -> list[Figure]:
    columns = list(run.columns)
    drawn = [_bytes(run, columns), _time(run, columns), _loss(run, columns),
             _by_region(run, columns, "norm"), _by_region(run, columns, "error")]
    return [figure for figure in drawn if figure]


def _middle(column: Column) -> float:
    return (column.first + column.last) / 2


def _steps(columns: Columns) -> tuple[int, int]:
    return columns[0].first, columns[-1].last


def _strips(columns: Columns, text: Callable[[StepCell], list[str]]
            ) -> list[tuple[float, float, str]]:
    result: list[tuple[float, float, str]] = []
    for column in fewer(columns, MAX_STRIPS):
        first, last = column.first, column.last
        head = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
        result.append((first, last, "\n".join([head, *text(column.cell)])))
    return result


def _range(spread: Spread, show: Callable[[float | None], str]) -> str:
    if spread.count > 1 and spread.minimum < spread.maximum:
        return f"{show(spread.mean)} ({show(spread.minimum)} to {show(spread.maximum)})"
    return show(spread.mean)


def _draw(plot: Plot, columns: Columns, pick: Callable[[StepCell], Spread | None], name: str,
          kind: str = "") -> None:
    """The mean as a line, with a band from minimum to maximum."""
    spreads = [(_middle(column), pick(column.cell)) for column in columns]
    if not kind and name != "faint" and any(spread and spread.count > 1 for _, spread in spreads):
        plot.area([(step, spread.minimum, spread.maximum) if spread and spread.count
                   else (step, None, None) for step, spread in spreads], name, "band")
    plot.line([(step, spread.mean if spread else None) for step, spread in spreads], name, kind)


def fallbacks(run: Run) -> list[Decision]:
    return [decision for decision in run.decisions if decision.is_fallback]


def _mark_fallbacks(plot: Plot, run: Run) -> None:
    plot.marks([(decision.step, f"step {decision.step:,}: {decision.region} fell back, "
                                f"{decision.after}") for decision in fallbacks(run)], "trouble")


def _bytes(run: Run, columns: Columns) -> Figure:
    colours = route_colours(run)
    totals = StepCell()
    for column in columns:
        totals.merge(column.cell)
    routes = sorted(totals.bytes, key=lambda route: (list(colours).index(route), route))
    most = max(max(sum(c.cell.bytes.values()), c.cell.dense_bytes) / c.cell.steps for c in columns)
    plot = Plot(_steps(columns), (0, 1.06 * most or 1), unit="bytes", width=1160)
    base = [0.0] * len(columns)
    for route in routes:
        top = [low + column.cell.bytes[route] / column.cell.steps
               for low, column in zip(base, columns)]
        plot.area([(edge, low, high) for column, low, high in zip(columns, base, top)
                   for edge in (column.first - 0.5, column.last + 0.5)], colours[route])
        base = top
    plot.line([(_middle(c), c.cell.dense_bytes / c.cell.steps) for c in columns], "text", "dashed")
    legend = [(route, colours[route], "area") for route in reversed(routes)]
    legend.append(("all dense", "text", "dashed"))
    if run.is_shadow:
        plot.line([(_middle(c), c.cell.shadow_bytes / c.cell.steps) for c in columns], "blue")
        legend.append(("low bits would send", "blue", "line"))

    def text(cell: StepCell) -> list[str]:
        lines = [f"{route}: {units.byte_count(cell.bytes[route] / cell.steps)}"
                 for route in reversed(routes) if cell.bytes[route]]
        lines.append(f"all dense: {units.byte_count(cell.dense_bytes / cell.steps)}")
        if run.is_shadow:
            lines.append(f"low bits: {units.byte_count(cell.shadow_bytes / cell.steps)}")
        return lines

    plot.strips(_strips(columns, text))
    return Figure("Bytes by route", "sent by this rank in a step", legend,
                  plot.svg("Bytes by route over steps"), is_wide=True)


def _time(run: Run, columns: Columns) -> Figure:
    ends = [_most(spread) for column in columns
            for spread in (column.cell.seconds, column.cell.exposed_seconds)]
    plot = Plot(_steps(columns), limits(ends), unit="seconds")
    _draw(plot, columns, lambda cell: cell.seconds, "blue")
    _draw(plot, columns, lambda cell: cell.exposed_seconds, "orange")
    _draw(plot, columns, lambda cell: cell.predicted_exposed_seconds, "text", "dashed")
    legend = [("step", "blue", "line"), ("exposed", "orange", "line"),
              ("exposed, predicted", "text", "dashed")]
    if run.is_shadow:
        _draw(plot, columns, lambda cell: cell.shadow_exposed_seconds, "green", "dashed")
        legend.append(("exposed with low bits, predicted", "green", "dashed"))
    plot.above([(_middle(column), _most(column.cell.seconds)) for column in columns])

    def text(cell: StepCell) -> list[str]:
        lines = [f"step: {_range(cell.seconds, units.seconds)}",
                 f"exposed: {_range(cell.exposed_seconds, units.seconds)}",
                 f"predicted: {units.seconds(cell.predicted_exposed_seconds.mean)}"]
        if run.is_shadow:
            lines.append(f"with low bits: {units.seconds(cell.shadow_exposed_seconds.mean)}")
        return lines

    plot.strips(_strips(columns, text))
    return Figure("Step time", "and the part that waits for gradients", legend,
                  plot.svg("Step time and exposed time over steps"))


def _most(spread: Spread) -> float | None:
    return spread.maximum if spread.count else None


def _loss(run: Run, columns: Columns) -> Figure | None:
    series = [(name, pick, tone) for name, pick, tone in
              ((f"rank {run.rank}", _rank_loss, "blue"), ("mean over ranks", _mean_loss, "orange"))
              if any(pick(column.cell).count for column in columns)]
    if not series:
        return None
    ends = [value for column in columns for _, pick, _ in series if pick(column.cell).count
            for value in (pick(column.cell).minimum, pick(column.cell).maximum)]
    low, high = min(ends), max(ends)
    room = 0.06 * (high - low) or 0.5
    plot = Plot(_steps(columns), (low - room if low < 0 or low > high / 2 else 0, high + room))
    for _, pick, tone in series:  # steps without a loss leave no gap in the line
        _draw(plot, [column for column in columns if pick(column.cell).count], pick, tone)

    def text(cell: StepCell) -> list[str]:
        return [f"{name}: {_range(pick(cell), units.number)}" for name, pick, _ in series
                if pick(cell).count]

    plot.strips(_strips(columns, text))
    _mark_fallbacks(plot, run)
    return Figure("Loss", "as observed by the job",
                  [*[(name, tone, "line") for name, _, tone in series], *_fallback_key(run)],
                  plot.svg("Loss over steps"))


def _rank_loss(cell: StepCell) -> Spread:
    return cell.rank_loss


def _mean_loss(cell: StepCell) -> Spread:
    return cell.loss


def _fallback_key(run: Run) -> list[tuple[str, str, str]]:
    return [("fallback", "trouble", "upright")] if fallbacks(run) else []


def series_colours(run: Run) -> dict[str, str]:
    """The largest regions have their own colours, the others are faint."""
    names = sorted(run.summary.regions.values(), key=lambda region: -region.values)
    return {region.name: SERIES_COLOURS[place] if place < len(SERIES_COLOURS) else "faint"
            for place, region in enumerate(names)}


def _by_region(run: Run, columns: Columns, what: str) -> Figure | None:
    colours = series_colours(run)
    drawn = [name for name in list(colours)[:MAX_SERIES]
             if any(getattr(region, what).count for column in columns
                    if (region := column.cell.regions.get(name)))]
    budgets = {name: budget for name in drawn
               if what == "error" and (budget := run.summary.regions[name].error_budget)}
    ends = [value for column in columns for name, region in column.cell.regions.items()
            if (spread := getattr(region, what)).count for value in (spread.minimum, spread.maximum)]
    span = log_limits([*ends, *budgets.values()])
    if not span:
        return None
    plot = Plot(_steps(columns), span, is_log=True)
    for name in sorted(drawn, key=lambda name: colours[name] != "faint"):
        _draw(plot, columns, partial(_spread_of, name, what), colours[name])
    _draw_budgets(plot, budgets, colours)

    def text(cell: StepCell) -> list[str]:
        return [f"{name}: {_range(getattr(cell.regions[name], what), units.number)}"
                for name in drawn if colours[name] != "faint" and name in cell.regions
                and getattr(cell.regions[name], what).count]

    plot.strips(_strips(columns, text))
    _mark_fallbacks(plot, run)
    legend = [(name, colours[name], "line") for name in drawn if colours[name] != "faint"]
    faint = sum(colours[name] == "faint" for name in drawn)
    legend += [(f"{faint} smaller", "faint", "line")] if faint else []
    legend += [("budget", "text", "dashed")] if budgets else []
    title, about = {"norm": ("Gradient norm by region", "of the reduced gradient"),
                    "error": ("Quantisation error by region",
                              "‖g − Q(g)‖² / ‖g‖² of one rank's gradient, sampled: the effect of the "
                              "route, also while it is not used")}[what]
    return Figure(title, about, legend + _fallback_key(run), plot.svg(f"{title} over steps"))


def _spread_of(region: str, what: str, cell: StepCell) -> Spread | None:
    return getattr(cell.regions[region], what) if region in cell.regions else None


def _draw_budgets(plot: Plot, budgets: dict[str, float], colours: dict[str, str]) -> None:
    by_level: dict[float, list[str]] = {}
    for name, budget in budgets.items():
        by_level.setdefault(budget, []).append(name)
    for budget, names in by_level.items():
        is_only, amount = len(by_level) == 1, units.number(budget)
        short = [name if len(name) <= 20 else f"{name[:19]}…" for name in names]
        plot.level(budget, "text" if is_only or len(names) > 1 else colours[names[0]],
                   f"budget: {amount}" if is_only else f"budget of {_names(short)}: {amount}",
                   f"budget of {_names(names)}: {amount}")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} regions"
