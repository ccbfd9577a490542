"""The time to the target on each route, the routes that do not pay off, and the routes that are faster
than the best profile."""

from neuron_fabric.support import units

from .figures import MARGIN, Arrival, Comparison, RouteFigures

MEASURES = ("seconds", "steps", "bytes")


def title(comparison: Comparison) -> str:
    origin = ""
    if not comparison.target_was_given and comparison.pace is not None:
        origin = f", {100 * MARGIN:g} points below the lowest accuracy of {comparison.pace.route}"
    return f"Training until the first evaluation that reaches {comparison.target}{origin}:"


def target_rows(comparison: Comparison) -> list[list[str]]:
    """Empty if there is no target, or no times."""
    if comparison.target is None or not comparison.has_times:
        return []
    pace = comparison.pace
    head = ["route", "reached", "time", "steps", "bytes"]
    ratios = [f"{name} / {pace.route}" for name in head[2:]] if pace is not None else []
    return [head + ratios, *(_cells(row, pace) for row in comparison.rows)]


def _cells(row: RouteFigures, pace: RouteFigures | None) -> list[str]:
    reached = f"{row.reached} of {row.runs} runs" if row.reached else "never"
    own = ["-"] * len(MEASURES)
    if (arrival := row.arrival) is not None:
        own = [units.seconds(arrival.seconds), units.number(arrival.steps), units.byte_count(arrival.bytes)]
    ratios = [_ratio(row.arrival, pace.arrival, name) for name in MEASURES] if pace is not None else []
    return [row.route, reached, *own, *ratios]


def _ratio(own: Arrival | None, pace: Arrival | None, measure: str) -> str:
    if own is None or pace is None:
        return "-"
    ratio = units.ratio(getattr(own, measure), getattr(pace, measure))
    return "-" if ratio is None else f"{ratio:.2f} x"


def sentences(comparison: Comparison) -> list[str]:
    """One sentence per route, except the pace, and one on the best profile; none without times."""
    if comparison.target is None or not comparison.has_times:
        return []
    verdicts = [f"{row.route} {_verdict(row, comparison.pace)}" for row in comparison.rows
            if row.arrival is None or row is not comparison.pace]
    return list(filter(None, [*verdicts, _best_profile(comparison.rows)]))


def _verdict(row: RouteFigures, pace: RouteFigures | None) -> str:
    if row.arrival is None:
        runs = f"only {row.reached} of {row.runs} runs" if row.reached else "no run"
        return f"does not pay off: {runs} reached the target"
    if pace is None or pace.arrival is None:
        return f"reaches the target in {units.seconds(row.arrival.seconds)}"
    ratio = round(row.arrival.seconds / pace.arrival.seconds, 2)
    if ratio < 1:
        return f"reaches the target in {ratio:.2f} x the time of {pace.route}"
    times = f"{ratio:.2f} x " if ratio > 1 else ""
    return f"does not pay off: it takes {times}as long as {pace.route} to reach the target"


def _best_profile(rows: list[RouteFigures]) -> str:
    """Empty if there is no profile."""
    profiles = [row for row in rows if row.route == "default" or row.route.startswith("profile:")]
    if not profiles:
        return ""
    times = {row.route: row.arrival.seconds for row in rows if row.arrival is not None}
    there = [row.route for row in profiles if row.route in times]
    if not there:
        return "no profile reaches the target in every run"
    best = min(there, key=times.__getitem__)
    faster = sorted((route for route in times if times[route] < times[best]), key=times.__getitem__)
    named = ", ".join(f"{route} ({units.seconds(times[route])})" for route in faster)
    return (f"the fastest profile is {best}: it reaches the target after {units.seconds(times[best])}; "
            + (f"faster: {named}" if faster else "no other route is faster"))
