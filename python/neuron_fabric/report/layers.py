"""The routes of all layers: a map of the parameters, and tables of regions and parameters."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from ..support import units
from .charts import route_colours
from .run import Run
from .svg import PALE, colour
from .table import Cell, swatch, table
from .treemap import Rect, squarify

WIDTH, HEIGHT, HEAD = 1160, 330, 20
MAX_CELLS = 1200  # in the map
MAX_PARAMETERS = 3000  # in the table


@dataclass(frozen=True)
class Layer:
    """One parameter. `route`: once admitted. `now`: at the end of the run."""

    name: str
    region: str
    values: int
    route: str
    now: str


def _read_layers(run: Run) -> list[Layer]:
    """The largest first. A parameter has the route of its region, unless it is dense from the start;
    training phases change the route of a region."""
    at_start = {region.name: region.route for region in run.attach.regions}
    result = []
    for parameter in run.attach.parameters:
        route = now = parameter.route
        if route == at_start.get(parameter.region):
            region = run.summary.regions[parameter.region]
            route, now = region.route, region.route_now
        result.append(Layer(parameter.name, parameter.region, parameter.values, route, now))
    return sorted(result, key=lambda layer: -layer.values)


def layers(run: Run) -> str:
    parameters = _read_layers(run)
    if not parameters:
        return ""
    colours = route_colours(run)
    total = sum(parameter.values for parameter in parameters) or 1
    by_route: dict[str, int] = {}
    for parameter in parameters:
        by_route[parameter.route] = by_route.get(parameter.route, 0) + parameter.values
    keys = "".join(swatch(colours[route], f"{route}: {units.percent(values / total)} of values")
                   for route, values in sorted(by_route.items(), key=lambda item: -item[1]))
    return ('<figure class="card wide"><figcaption><h3>Routes of the layers</h3><p>areas are '
            "numbers of values; colours are the routes of the profile, once admitted</p>"
            f'</figcaption><div class="legend">{keys}</div>'
            f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'role="img" aria-label="Parameters by region and route">'
            f'{"".join(_map(parameters, colours, total))}</svg></div>'
            f"{_parameter_table(parameters, colours, total)}</figure>")


def _map(parameters: list[Layer], colours: dict[str, str], total: int) -> Iterator[str]:
    regions: dict[str, list[Layer]] = {}
    for parameter in parameters:
        if parameter.values:
            regions.setdefault(parameter.region, []).append(parameter)
    sizes = {name: sum(p.values for p in inside) for name, inside in regions.items()}
    order = sorted(sizes, key=lambda name: -sizes[name])
    for name, room in zip(order, squarify([sizes[name] for name in order],
                                          Rect(0, 0, WIDTH, HEIGHT))):
        yield from _map_region(name, regions[name], room, colours, total,
                               most=max(MAX_CELLS // len(order), 10))


def _map_region(name: str, inside: list[Layer], room: Rect, colours: dict[str, str],
                total: int, most: int) -> Iterator[str]:
    has_head = room.width > 60 and room.height > 2.5 * HEAD
    if has_head:
        share = units.percent(sum(p.values for p in inside) / total)
        yield _fitted(Rect(room.x + 2, room.y, room.width - 4, HEAD), f"{name}  {share}", "name")
    head = HEAD if has_head else 0
    room = Rect(room.x, room.y + head, room.width, room.height - head)
    shown, rest = inside[:most], inside[most:]
    sizes = [parameter.values for parameter in shown]
    rects = squarify(sizes + ([sum(p.values for p in rest)] if rest else []), room)
    for parameter, rect in zip(shown, rects):
        title = (f"{parameter.name}\nregion {parameter.region}, {parameter.route}\n"
                 f"{parameter.values:,} values, {units.percent(parameter.values / total)}")
        yield _cell(rect, colours[parameter.route], parameter.name.removesuffix(".weight"), title)
    if rest:
        yield _cell(rects[-1], "faint", "", f"{len(rest):,} smaller parameters of {name}")


def _cell(rect: Rect, name: str, label: str, title: str) -> str:
    if rect.width < 0.3 or rect.height < 0.3:
        return ""
    inner = Rect(rect.x + 0.5, rect.y + 0.5, max(rect.width - 1, 0.3), max(rect.height - 1, 0.3))
    return (f'<rect class="area" {colour(name)} x="{inner.x:.1f}" y="{inner.y:.1f}" '
            f'width="{inner.width:.1f}" height="{inner.height:.1f}"><title>{escape(title)}</title>'
            f"</rect>{_fitted(inner, label, 'label on-pale' if name in PALE else 'label on')}")


def _fitted(rect: Rect, text: str, kind: str) -> str:
    """Cuts a long name at the front: its end is more specific."""
    letters = int((rect.width - 8) / 6.6)
    if not text or rect.height < 15 or letters < 5:
        return ""
    shown = text if len(text) <= letters else "…" + text[1 - letters:].lstrip(".")
    return (f'<text class="{kind}" x="{rect.x + 4:.1f}" y="{rect.y + 14:.1f}">{escape(shown)}'
            "</text>")


def _parameter_table(parameters: list[Layer], colours: dict[str, str], total: int) -> str:
    rows = []
    for parameter in parameters[:MAX_PARAMETERS]:
        rows.append([Cell.text(parameter.name), Cell.text(parameter.region),
                     Cell(swatch(colours[parameter.route], parameter.route), parameter.route),
                     Cell.text(parameter.now),
                     Cell.number(parameter.values, f"{parameter.values:,}"),
                     Cell.number(parameter.values, units.percent(parameter.values / total))])
    more = len(parameters) - len(rows)
    note = f"<p>{more:,} smaller parameters are not shown.</p>" if more > 0 else ""
    return (f"<details><summary>{units.counted(len(parameters), 'parameter')}</summary>"
            + table(["parameter", "region", "route", "at the end", "values", "share"], rows)
            + f"{note}</details>")


def region_table(run: Run) -> str:
    colours = route_colours(run)
    total = sum(region.values for region in run.summary.regions.values()) or 1
    rows = []
    for region in run.summary.regions.values():
        ratio = units.ratio(region.bytes, region.dense_bytes)
        low_bit = units.ratio(region.low_bit_steps, region.steps)
        rows.append([
            Cell.text(region.name),
            Cell(swatch(colours.get(region.route, "faint"), region.route), region.route),
            Cell.text(region.route_now), Cell.text(region.reason),
            Cell.number(region.values, f"{region.values:,}"),
            Cell.number(region.values, units.percent(region.values / total)),
            Cell.number(low_bit, units.percent(low_bit)),
            Cell.number(region.bytes, units.byte_count(region.bytes)),
            Cell.number(ratio, "-" if ratio is None else f"{ratio:.3f}"),
            Cell.number(region.norm, units.number(region.norm)),
            Cell.number(region.error, units.number(region.error)),
            Cell.number(region.error_budget, units.number(region.error_budget)),
            Cell.number(region.fallbacks, str(region.fallbacks))])
    return table(["region", "route", "at the end", "reason", "values", "share",
                  "low-bit steps", "sent", "of dense", "norm", "quantisation error", "budget",
                  "fallbacks"], rows)
