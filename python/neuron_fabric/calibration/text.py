"""The results of a calibration, as text and tables. Needs no PyTorch."""

from typing import Any

from neuron_fabric.support import units
from neuron_fabric.support.tables import align
from neuron_fabric.telemetry.records import DENSE_ROUTE


def tables(outcome: dict[str, Any]) -> str:
    return f"{_routes(outcome)}\n\n{_branches(outcome)}"


def _routes(outcome: dict[str, Any]) -> str:
    rows = [["region", "route", "of its bytes", "error of the sum", "slope", "signs kept", "harm alone", ""]]
    before = ""
    for row in outcome["routes"]:
        rows.append([
            row["region"] if row["region"] != before else "", row["route"],
            units.percent(row["bytes_up"] / row["dense_bytes"]), _figure(row["error"], ".2e"),
            _figure(row["slope"], ".3f"), units.percent(row["agreement"]),
            harm(row) if row["pairs"] else "", "chosen" if row["chosen"] else ""])
        before = row["region"]
    return align(rows, left=2)


def _branches(outcome: dict[str, Any]) -> str:
    rows = [["routes", "from", "bytes", "harm", "pairs", ""]]
    for row in outcome["branches"]:
        if not row["routes"]:
            continue
        verdict = "within the target" if row["within_target"] else "too much"
        rows.append([
            _spelled(row["routes"]), row["start"], units.percent(row["bytes_up_ratio"]), harm(row),
            str(row["pairs"]),
            verdict + (", chosen" if row["chosen"] else "")])
    return align(rows, left=2)


def conclusion(outcome: dict[str, Any]) -> str:
    allowed = f"{outcome['most_harm']:.4g} of loss (target {outcome['target']})"
    if not outcome["meets_target"]:
        return (f"only full precision stays within {allowed}: use plain DDP, allow more "
                "harm (--target), or offer better routes (--candidates)")
    chosen = {region: route for region, route in outcome["chosen"].items() if route != DENSE_ROUTE}
    if outcome["at_first"] is None:
        when = "after dense first steps"
    elif outcome["at_first"] == chosen:
        when = "from the first step on"
    else:
        when = f"after first steps with {_spelled(outcome['at_first'])}"
    share = units.percent(outcome["bytes_up_ratio"])
    return (f"{_spelled(chosen)}, the rest dense, {when}:\n{share} of the dense bytes up, at "
            f"{harm(outcome)} of loss; the limit is {allowed}")


def changes(update: dict[str, Any]) -> str:
    """The changes of an update to a profile."""
    rows = [["region", "low-bit steps", "max error", "fallbacks", "change"]]
    for row in update["regions"]:
        fell = ", ".join(f"{count} {reason}" for reason, count in row["fallbacks"].items())
        rows.append([row["region"], f"{row['low_bit_steps']:,}", units.number(row["most_error"]),
                     fell or "none", "; ".join(row["changes"]) or
                     ("none: from earlier routes" if row["outdated"] else "none")])
    return align(rows, left=1)


def _spelled(routes: dict[str, str]) -> str:
    return ", ".join(f"{region}={route}" for region, route in routes.items())


def harm(row: dict[str, Any]) -> str:
    if row["harm"] is None:
        return "diverged"
    return f"{row['harm']:+.4f} ± {row['standard_error']:.4f}"


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
