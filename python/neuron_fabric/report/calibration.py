"""The page of a calibrated profile: the measurements, the trials and the selected routes."""

import json
import math
from html import escape
from pathlib import Path
from typing import Any

from ..support import units
from .charts import SERIES_COLOURS
from .svg import Scale, colour
from .table import Cell, table

FORMAT = "neuron_fabric.profile"
ROW = 26  # height of a branch in the drawing
LEFT, RIGHT, WIDTH = 470, 130, 1160
MAX_LETTERS = 62  # in the name of a branch
SIZE, MARGIN = 360, 62  # of the plot of errors

Row = dict[str, Any]


class ProfileError(Exception):
    """The problem with a profile, in one sentence."""


def read_profile(path: Path) -> dict[str, Any]:
    """Raises ProfileError if it is not a profile, or has no evidence of a calibration."""
    try:
        profile = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProfileError(f"cannot read {path}: {error}") from error
    if not isinstance(profile, dict) or profile.get("format") != FORMAT:
        raise ProfileError(f"{path} is neither a run's folder nor a profile")
    provenance = profile.get("provenance")
    rows = provenance.get("table") if isinstance(provenance, dict) else None
    if not isinstance(rows, list) or not isinstance(provenance.get("routes"), list):
        raise ProfileError(f"{path} has no evidence of a calibration (nf calibrate)")
    return profile


def body(profile: dict[str, Any]) -> str:
    """The content of the page. Raises ProfileError if the evidence is damaged."""
    provenance = profile["provenance"]
    try:
        return (f"{_header(profile)}{_tiles(provenance)}{_branches(provenance)}"
                f"{_errors(provenance)}{_routes(provenance)}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProfileError(f"the evidence of {profile.get('name')} is damaged: {error!r}") from error


def _header(profile: dict[str, Any]) -> str:
    provenance = profile["provenance"]
    facts = {key: str(provenance[key]) for key in
             ("command", "ranks", "machine", "version", "torch") if provenance.get(key)}
    inside = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
                     for name, value in facts.items())
    return f"<header><h1>{escape(str(profile['name']))}</h1><dl>{inside}</dl></header>"


def _tile(name: str, value: str, about: str) -> str:
    return (f'<div class="tile"><h2>{escape(name)}</h2><strong>{escape(value)}</strong>'
            f"<p>{escape(about)}</p></div>")


def _tiles(provenance: dict[str, Any]) -> str:
    chosen = provenance["chosen"]
    found = next((row for row in provenance["table"]
                  if row["chosen"] and row["start"] == "checkpoint"), None)
    if not provenance["meets_target"] or found is None:
        return ('<section class="tiles">'
                + _tile("Recommended", "full precision", "nothing else is within the target")
                + "</section>")
    return ('<section class="tiles">'
            + _tile("Bytes up, of dense", units.percent(provenance["bytes_up_ratio"]),
                    _spelled(chosen))
            + _tile("Harm to the loss", _harm(found), f"allowed: {provenance['most_harm']:.4g}")
            + "</section>")


def _spelled(routes: dict[str, str]) -> str:
    return ", ".join(f"{region}={route}" for region, route in routes.items()) or "all dense"


def _harm(row: Row) -> str:
    if not row["pairs"]:
        return "-"
    if row["harm"] is None:
        return "diverged"
    return f"{row['harm']:+.4f} ± {row['standard_error']:.4f}"


# Trials.


def _branches(provenance: dict[str, Any]) -> str:
    rows = [row for row in provenance["table"] if row["routes"]]
    limit = provenance["most_harm"]
    known = [row for row in rows if row["harm"] is not None]
    ends = [row["harm"] + 2 * row["standard_error"] for row in known]
    starts = [row["harm"] - 2 * row["standard_error"] for row in known]
    x = Scale(min([0.0, *starts]), 1.05 * max([2 * limit, *ends]), LEFT, WIDTH - RIGHT)
    bottom = ROW * len(rows) + 8
    parts = [f'<path class="grid" d="M{x(tick):.1f} 0V{bottom}"/>'
             f'<text class="tick middle" x="{x(tick):.1f}" y="{bottom + 18}">{tick:.4g}</text>'
             for tick in x.ticks(8)]
    parts += [f'<path class="axis" d="M{x(0):.1f} 0V{bottom}"/>',
              f'<path class="line dashed" {colour("trouble")} d="M{x(limit):.1f} 0V{bottom}"/>',
              f'<text class="label" x="{x(limit) + 5:.1f}" y="10">allowed</text>']
    parts += [_branch(row, x, ROW * place + ROW / 2 + 4) for place, row in enumerate(rows)]
    svg = (f'<svg viewBox="0 0 {WIDTH} {bottom + 26}" role="img" aria-label="Harm of every branch">'
           f"{''.join(parts)}</svg>")
    return ('<figure class="card wide"><figcaption><h3>Effect of low bits on the loss</h3><p>short '
            "branches, relative to dense ones with the same batches; lines extend two standard "
            f"errors to each side</p></figcaption><div class='scroll'>{svg}</div></figure>")


def _branch(row: Row, x: Scale, y: float) -> str:
    name = ("first steps: " if row["start"] != "checkpoint" else "") + _spelled(row["routes"])
    shown = name if len(name) <= MAX_LETTERS else name[:MAX_LETTERS - 1] + "…"
    bold = " name" if row["chosen"] else ""
    text = (f'<text class="tick end{bold}" x="{LEFT - 10}" y="{y + 4:.1f}">{escape(shown)}'
            f"<title>{escape(name)}</title></text>"
            f'<text class="tick" x="{WIDTH - RIGHT + 8}" y="{y + 4:.1f}">'
            f"{units.percent(row['bytes_up_ratio'])} of bytes</text>")
    if row["harm"] is None:
        return text + f'<text class="label" x="{LEFT + 8}" y="{y + 4:.1f}">diverged</text>'
    kind = "green" if row["chosen"] else "blue" if row["within_target"] else "orange"
    low, high = (x(row["harm"] + sign * 2 * row["standard_error"]) for sign in (-1, 1))
    return text + (f'<g {colour(kind)}><title>{escape(_harm(row))}</title>'
                   f'<path class="line" d="M{max(low, LEFT):.1f} {y:.1f}H{high:.1f}"/>'
                   f'<circle class="area" cx="{x(row["harm"]):.1f}" cy="{y:.1f}" r="5"/></g>')


# Errors of sums.


def _errors(provenance: dict[str, Any]) -> str:
    rows = [row for row in provenance["routes"] if row["error"]]
    if not rows:
        return ""
    regions = list(dict.fromkeys(row["region"] for row in rows))
    shade = {region: SERIES_COLOURS[place % len(SERIES_COLOURS)]
             for place, region in enumerate(regions)}
    shares = [100 * row["bytes_up"] / row["dense_bytes"] for row in rows]
    errors = [row["error"] for row in rows]
    x = Scale(0, 1.1 * max(shares), MARGIN, WIDTH - RIGHT)
    y = Scale(10 ** math.floor(math.log10(min(errors))), 10 ** math.ceil(math.log10(max(errors))),
              SIZE - 40, 12, is_log=True)
    parts = [f'<path class="grid" d="M{x.a} {y(tick):.1f}H{x.b}"/><text class="tick end" '
             f'x="{x.a - 8}" y="{y(tick) + 4:.1f}">{tick:.0e}</text>' for tick in y.ticks(8)]
    parts += [f'<text class="tick middle" x="{x(tick):.1f}" y="{SIZE - 22}">{tick:.3g} %</text>'
              for tick in x.ticks(10)]
    parts.append(f'<text class="tick middle" x="{(x.a + x.b) / 2}" y="{SIZE - 4}">'
                 "bytes up, of the region's dense bytes</text>")
    for row, share in zip(rows, shares, strict=True):
        ring = ' stroke="var(--text)" stroke-width="2"' if row["chosen"] else ""
        words = f"{row['region']} {row['route']}: error of the sum {row['error']:.2e}"
        parts.append(f'<circle class="area" {colour(shade[row["region"]])}{ring} cx="{x(share):.1f}" '
                     f'cy="{y(row["error"]):.1f}" r="6"><title>{escape(words)}</title></circle>')
    last = {row["route"]: share for row, share in zip(rows, shares, strict=True)}
    parts += [f'<text class="label middle" x="{x(share):.1f}" y="{SIZE - 46}">{escape(route)}</text>'
              for route, share in last.items()]
    keys = "".join(f'<span class="key"><i class="area" {colour(shade[region])}></i>{escape(region)}'
                   "</span>" for region in regions)
    return ('<figure class="card wide"><figcaption><h3>Error of the sum (vnmse)</h3><p>‖sum − exact‖² '
            "/ ‖exact‖², mean over the measured steps of dense training; selected "
            f'routes have a ring</p></figcaption><div class="legend">{keys}</div>'
            f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {SIZE}" role="img" '
            'aria-label="Error of the sum by bytes">'
            f"{''.join(parts)}</svg></div></figure>")


def _routes(provenance: dict[str, Any]) -> str:
    rows = []
    for row in provenance["routes"]:
        share = row["bytes_up"] / row["dense_bytes"]
        rows.append([
            Cell.text(row["region"]), Cell.text(row["route"]),
            Cell.number(share, units.percent(share)),
            Cell.number(row["error"], units.number(row["error"])),
            Cell.number(row["slope"], units.number(row["slope"])),
            Cell.number(row["agreement"], units.percent(row["agreement"])),
            Cell.number(row["harm"], _harm(row)), Cell.text("chosen" if row["chosen"] else "")])
    head = ["region", "route", "of its bytes", "error of the sum", "slope", "signs kept",
            "harm alone", ""]
    return (f'<section class="card wide"><h3>Regions and routes</h3>{table(head, rows)}</section>')
