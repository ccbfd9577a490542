"""The text of a Summary: lines and tables for people."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .support import units
from .support.tables import align
from .telemetry.records import Decision

if TYPE_CHECKING:
    from .summary import RegionSummary, Summary

SHOWN_FALLBACKS = 10  # the last ones; Summary.to_dict() has them all

OFF = "NF_MODE is off: gradients are reduced without the runtime, and nothing is recorded"


def text(summary: "Summary") -> str:
    if summary.mode == "off":
        return "\n".join(summary.notes) or OFF
    is_shadow = summary.shadow_bytes is not None
    blocks = [_head(summary), _regions(summary.regions.values(), is_shadow),
              _fallbacks(summary.fallbacks)]
    return "\n\n".join(filter(None, blocks))


def parameters_text(summary: "Summary") -> str:
    if summary.mode == "off":
        return OFF
    if not summary.attach or not summary.attach.parameters:
        return "no parameters yet"
    at_start = {region.name: region.route for region in summary.attach.regions}
    rows = [["parameter", "region", "profile's route", "now", "reason", "values"]]
    for parameter in summary.attach.parameters:
        region = summary.regions[parameter.region]
        is_small = parameter.route != at_start[parameter.region]  # dense, unlike its region
        rows.append([parameter.name, parameter.region, parameter.route if is_small else region.route,
                     parameter.route if is_small else region.route_now or "-",
                     "small" if is_small else region.reason or "-", f"{parameter.values:,}"])
    return align(rows, left=5)


def _head(summary: "Summary") -> str:
    lines = []
    if attach := summary.attach:
        lines.append(f"neuron_fabric {attach.version}: {attach.ranks} ranks, mode {attach.mode}, "
                     f"admit {attach.admit}, profile {attach.profile}")
        if attach.topology_ms:
            lines.append(f"topology {attach.topology}; measured for a bucket: {units.by_time(attach.topology_ms)}")
    lines += summary.notes
    if summary.steps == 0:
        return "\n".join([*lines, "no steps yet"])
    skipped = f", {summary.skipped_steps:,} skipped" if summary.skipped_steps else ""
    lines.append(f"{units.counted(summary.steps, 'step')} to step {summary.step:,}{skipped}")
    lines += _loss(summary)
    lines += _traffic(summary) if summary.shadow_bytes is None else _shadow(summary)
    lines.append(f"step {units.seconds(summary.step_seconds)}, exposed "
                 f"{units.seconds(summary.exposed_seconds)}, predicted "
                 f"{units.seconds(summary.predicted_exposed_seconds)} "
                 f"(medians of {units.counted(summary.timed_steps, 'step')})")
    if summary.warnings:
        lines.append(f"warnings: {summary.warnings:,}, the last: {summary.last_warning}")
    return "\n".join(lines)


def _loss(summary: "Summary") -> list[str]:
    known = [f"{units.number(loss)} at step {at:,} {whose}" for loss, at, whose in
             ((summary.rank_loss, summary.rank_loss_step, "on this rank"),
              (summary.loss, summary.loss_step, "as the mean over ranks")) if loss is not None]
    return [f"loss {', '.join(known)}"] if known else []


def _traffic(summary: "Summary") -> list[str]:
    return [f"sent {units.byte_count(summary.bytes)} (dense: "
            f"{units.byte_count(summary.dense_bytes)}), ratio {_ratio(summary.bytes_ratio)}"]


def _shadow(summary: "Summary") -> list[str]:
    would = units.ratio(summary.shadow_bytes or 0, summary.dense_bytes)
    return ["shadow mode: all gradients were sent at full precision, "
            f"{units.byte_count(summary.bytes)}",
            f"low bits would have sent {units.byte_count(summary.shadow_bytes)}, ratio "
            f"{_ratio(would)}", *_shadow_gain(summary)]


def _shadow_gain(summary: "Summary") -> list[str]:
    dense, low_bit = summary.predicted_exposed_seconds, summary.shadow_exposed_seconds
    if dense is None or low_bit is None:
        return []
    gain = dense - low_bit
    much = (f"{units.seconds(abs(gain))} {'less' if gain > 0 else 'more'} than the "
            f"{units.seconds(dense)} predicted at full precision"
            if abs(gain) > 0.001 * dense else "the same as predicted at full precision")
    return [f"exposed time at low bits would have been {units.seconds(low_bit)} per step, {much} "
            "(predicted, not measured)"]


def _regions(regions: "Iterable[RegionSummary]", is_shadow: bool) -> str:
    """In shadow mode, everything was sent at full precision, so there is no ratio."""
    rows = [["region", *(["profile's route", "sent as"] if is_shadow else ["route", "now"]), "reason",
             "low bit (predicted)" if is_shadow else "low bit", "sent",
             *([] if is_shadow else ["ratio"]), "norm", "quantisation error",
             "budget", "fallbacks"]]
    for region in regions:
        ratio = [] if is_shadow else [_ratio(region.bytes_ratio)]
        rows.append([region.name, region.route, region.route_now, region.reason,
                     units.percent(units.ratio(region.low_bit_steps, region.steps)),
                     units.byte_count(region.bytes), *ratio,
                     units.number(region.norm), units.number(region.error),
                     units.number(region.error_budget), str(region.fallbacks)])
    return align(rows, left=4) if len(rows) > 1 else ""


def _fallbacks(fallbacks: Sequence[Decision]) -> str:
    if not fallbacks:
        return ""
    shown = fallbacks[-SHOWN_FALLBACKS:]
    title = (f"the last {len(shown)} of {len(fallbacks):,} fallbacks" if len(shown) < len(fallbacks)
             else "fallbacks")
    rows = [["step", "region", "reason"]]
    rows += [[f"{fallback.step}", fallback.region, fallback.after] for fallback in shown]
    return f"{title}\n{align(rows, left=3)}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
