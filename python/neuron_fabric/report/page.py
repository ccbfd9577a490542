"""One HTML page of a run, without external scripts, fonts or images."""

from datetime import datetime, timezone
from html import escape
from importlib import resources

from ..support import units
from ..telemetry.records import Buckets, Decision
from .charts import fallbacks, figures
from .layers import layers, region_table
from .run import Run
from .table import Cell, swatch, table
from .timeline import MEANINGS, timeline
from .verdict import verdict

MAX_ROWS = 1000  # in a table of decisions


def page(run: Run) -> str:
    return frame(_title(run), f"{_header(run)}{_notices(run)}{_tiles(run)}{_body(run)}{_footer(run)}")


def frame(name: str, inside: str) -> str:
    """The whole page around its content."""
    title = f"{name} · NEURON-Fabric"
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{_resource('style.css')}</style></head>\n"
            f"<body><main>{inside}</main><script>{_resource('sort.js')}</script></body></html>\n")


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _title(run: Run) -> str:
    """The job, from its records."""
    attach = run.attach
    routes = {region.route for region in attach.regions}
    is_one_route = attach.admit == "forced" and len(routes) == 1
    parts = [attach.model, f"{next(iter(routes))} route" if is_one_route else
             f"{attach.profile} profile",
             f"{_count(sum(region.values for region in attach.regions))} parameters",
             units.counted(attach.ranks, "rank"), _when(attach.time) if attach.time else ""]
    return " · ".join(filter(None, parts))


def _count(value: int) -> str:
    """4,096, 361 k, 124 M, 1.56 G."""
    if value < 99_950:
        return f"{value:,}"
    scale, unit = next((scale, unit) for scale, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k"))
                       if value >= 0.9995 * scale)
    return f"{value / scale:.3g} {unit}"


def _verdict(run: Run) -> str:
    found = verdict(run)
    return "" if found is None else (f'<p class="verdict {found.kind}"><strong>{escape(found.text)}'
                                     f"</strong> {escape(found.advice)}</p>")


def _body(run: Run) -> str:
    if not run.summary.steps:
        return f'<p class="card wide">The run has no steps yet.</p>{layers(run)}'
    drawn = "\n".join(figure.html() for figure in figures(run))
    return (f'{timeline(run)}\n<div class="grid-of-two">{drawn}</div>\n{layers(run)}\n'
            f'<section class="card wide"><h3>Regions</h3>{region_table(run)}</section>\n'
            f"{_fallbacks(run)}\n{_decisions(run)}")


def _when(time: float | None) -> str:
    try:
        return datetime.fromtimestamp(time or 0, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return "-"


def _speed(latency_us: float | None, gbps: float | None) -> str:
    return f"{units.number(gbps)} Gb/s, {units.number(latency_us)} µs"


def _header(run: Run) -> str:
    attach = run.attach
    facts = {"folder": run.name, "ranks": f"{attach.ranks} over {attach.backend or '-'}",
             "source": attach.source,
             "profile": attach.profile, "mode": attach.mode, "admit": attach.admit,
             "topology": attach.topology, "topologies, per bucket": units.by_time(attach.topology_ms),
             "link": _speed(attach.link.latency_us, attach.link.gbps),
             "dense all-reduce": _speed(attach.link.dense_latency_us, attach.link.dense_gbps),
             "seed": str(attach.seed), "version": attach.version, "torch": attach.torch,
             "attached": _when(attach.time)}
    if run.buckets and run.buckets.buckets:
        facts["buckets"] = _buckets(run.buckets)
    if run.summary.steps and run.last_time and attach.time:
        facts["lasted"] = units.seconds(max(run.last_time - attach.time, 0))
    inside = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
                     for name, value in facts.items() if value)
    return f"<header><h1>{escape(_title(run))}</h1>{_verdict(run)}<dl>{inside}</dl></header>"


def _buckets(buckets: Buckets) -> str:
    values = sum(bucket.values for bucket in buckets.buckets)
    low_bit = sum(bucket.low_bit_values for bucket in buckets.buckets)
    share = units.percent(units.ratio(low_bit, values))
    return f"{len(buckets.buckets):,}, {share} of values have a low-bit route"


def _notices(run: Run) -> str:
    lines = dict.fromkeys((notice.level, notice.text) for notice in run.notices)
    return "".join(f'<p class="notice {"loud" if level in ("warning", "error") else ""}">'
                   f"{escape(text)}</p>" for level, text in lines)


def _tile(name: str, value: str, about: list[str], kind: str = "") -> str:
    lines = "".join(f"<p>{escape(line)}</p>" for line in about if line)
    return (f'<div class="tile {kind}"><h2>{escape(name)}</h2><strong>{escape(value)}</strong>'
            f"{lines}</div>")


def _tiles(run: Run) -> str:
    summary = run.summary
    if not summary.steps:
        return ""
    tiles = [_bytes_tile(run), _step_tile(run), _exposed_tile(run)]
    tiles += _loss_tile(run)
    tiles.append(_fallback_tile(run))
    return f'<section class="tiles">{"".join(tiles)}</section>'


def _bytes_tile(run: Run) -> str:
    summary = run.summary
    if run.is_shadow:
        would = units.ratio(summary.shadow_bytes or 0, summary.dense_bytes)
        return _tile("Bytes, of dense", units.percent(would),
                     ["if low-bit routes were on",
                      f"{units.byte_count(summary.shadow_bytes)} instead of "
                      f"{units.byte_count(summary.dense_bytes)}"])
    last = list(run.columns)[-1].cell
    now = units.ratio(sum(last.bytes.values()), last.dense_bytes)
    return _tile("Bytes, of dense", units.percent(summary.bytes_ratio),
                 [f"{units.byte_count(summary.bytes)} instead of "
                  f"{units.byte_count(summary.dense_bytes)}", f"{units.percent(now)} at the end"])


def _step_tile(run: Run) -> str:
    summary = run.summary
    lines = [f"median of {units.counted(summary.timed_steps, 'step')}"] if summary.timed_steps else []
    if not run.is_shadow and len(run.dense_seconds) >= 5:
        dense = sorted(run.dense_seconds)[len(run.dense_seconds) // 2]
        lines.append(f"{units.seconds(dense)} in {len(run.dense_seconds):,} all-dense steps")
    return _tile("Step time", units.seconds(summary.step_seconds), lines)


def _exposed_tile(run: Run) -> str:
    summary = run.summary
    exposed, predicted = summary.exposed_seconds, summary.predicted_exposed_seconds
    lines = [f"{units.percent(units.ratio(exposed or 0, summary.step_seconds or 0))} of the step"]
    if exposed and predicted is not None:
        off = f"{round(100 * (predicted / exposed - 1)):+d} %".replace("-", "−")
        lines.append(f"predicted {units.seconds(predicted)}, {off}")
    if run.is_shadow:
        lines.append(f"{units.seconds(summary.shadow_exposed_seconds)} if low-bit routes were on")
    return _tile("Exposed time", units.seconds(exposed), lines)


def _loss_tile(run: Run) -> list[str]:
    """The loss of this rank, which every step has; in older records, the mean over ranks."""
    summary = run.summary
    loss, at, name, whose = ((summary.rank_loss, summary.rank_loss_step, "rank_loss",
                              f"rank {run.rank}") if summary.rank_loss is not None else
                             (summary.loss, summary.loss_step, "loss", "mean over ranks"))
    first = next((spread.mean for column in run.columns
                  if (spread := getattr(column.cell, name)).count), None)
    if loss is None:
        return []
    skipped = f"{units.counted(summary.skipped_steps, 'step')} skipped (NaN or Inf)" \
        if summary.skipped_steps else ""
    return [_tile("Loss", units.number(loss), [f"{whose} at step {at:,}",
                                               f"from {units.number(first)} at the start", skipped])]


def _fallback_tile(run: Run) -> str:
    fell = fallbacks(run)
    locked = [region.name for region in run.summary.regions.values()
              if region.reason == "locked_out"]
    lines = [f"the last: {fell[-1].region}, {fell[-1].after}, step {fell[-1].step:,}"] if fell \
        else ["no region lost its low-bit route"]
    if locked:
        lines.append(f"locked out: {', '.join(locked[:3])}{', …' if len(locked) > 3 else ''}")
    return _tile("Fallbacks", f"{len(fell):,}", lines, "bad" if locked else "")


def _fallbacks(run: Run) -> str:
    fell = fallbacks(run)
    if not fell:
        return ""
    back = _recoveries(run)
    rows = [[Cell.number(decision.step, f"{decision.step:,}"), Cell.text(decision.region),
             Cell(swatch(_safe(decision.after), decision.after), decision.after),
             Cell.text(MEANINGS.get(decision.after, "").removeprefix("dense: ")),
             Cell.number(back.get(decision), f"{back[decision]:,}" if decision in back
                         else "not yet")] for decision in fell[-MAX_ROWS:]]
    return (f'<section class="card wide"><h3>Fallbacks</h3>{_more(fell)}'
            + table(["step", "region", "reason", "why", "low-bit again at step"], rows)
            + "</section>")


def _safe(reason: str) -> str:
    return f"r-{reason}" if reason in MEANINGS else "faint"


def _recoveries(run: Run) -> dict[Decision, int]:
    """The steps at which regions that fell back used low bits again."""
    result: dict[Decision, int] = {}
    following: dict[str, int] = {}  # by region
    for decision in reversed(run.decisions):
        if decision.is_low_bit:
            following[decision.region] = decision.step
        elif decision.is_fallback and decision.region in following:
            result[decision] = following[decision.region]
    return result


def _more(rows: list[Decision]) -> str:
    return f"<p>The last {MAX_ROWS:,} of {len(rows):,}.</p>" if len(rows) > MAX_ROWS else ""


def _decisions(run: Run) -> str:
    if not run.decisions:
        return ""
    rows = [[Cell.number(decision.step, f"{decision.step:,}"),
             Cell.number(decision.epoch, f"{decision.epoch:,}"), Cell.text(decision.region),
             Cell.text(decision.before),
             Cell(swatch(_safe(decision.after), decision.after), decision.after),
             Cell.text(decision.route)] for decision in run.decisions[-MAX_ROWS:]]
    return (f'<section class="card wide"><h3>Decisions</h3>{_more(run.decisions)}<details><summary>'
            f"{units.counted(len(rows), 'decision')}</summary>"
            + table(["step", "epoch", "region", "from", "to", "route"], rows)
            + "</details></section>")


def _footer(run: Run) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in run.notes)
    width = run.columns.width
    if width > 1:
        notes += (f"<li>Plots have one column per {width:,} steps: lines are means, bands extend "
                  "from minimum to maximum.</li>")
    notes += (f"<li>Bytes and step times are those of rank {run.rank}; norms, quantisation "
              "errors and decisions are the same on every rank.</li>")
    return f"<footer><ul>{notes}</ul></footer>"
