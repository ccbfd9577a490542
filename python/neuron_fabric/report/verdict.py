"""Whether low bits paid off in a run, in one sentence, with advice.

Step times are measured and compared within the run. If the records have only a prediction, the sentence
states it.
"""

import math
import statistics
from collections.abc import Collection
from dataclasses import dataclass

from ..support import units
from ..summary import RECENT_STEPS
from ..telemetry.reasons import FALLBACK_REASONS
from ..telemetry.records import DENSE_ROUTE
from .run import Run

MIN_STEPS = 5  # of each kind, for a comparison
MIN_CHANGE = 0.01  # relative to the step time: less is no difference

_USEFUL = 'admit="useful", the default, uses them only if it predicts a shorter step'
_ADVICE = {  # for runs in which low bits did not pay off, by admit
    "forced": f"Omit route=: {_USEFUL}.",
    "safe": f"Use {_USEFUL}, unless the link of the real job is slower than this one.",
    "useful": "The cost model predicted otherwise: set NF_MODE=off to send everything dense, and "
              "repeat the comparison on an idle machine.",
}


@dataclass(frozen=True)
class Verdict:
    text: str
    advice: str
    kind: str  # "paid", "lost" or "even"


def verdict(run: Run) -> Verdict | None:
    """None for a run without steps."""
    if not run.summary.steps:
        return None
    if run.attach.ranks == 1:
        return Verdict("A single rank sends nothing: low bits cannot help.",
                       "Attach in jobs of several ranks.", "even")
    if run.is_shadow:
        return _shadow(run)
    if not run.low_bit_steps:
        return _unused(run)
    found = _compared(run)
    locked = [region.name for region in run.summary.regions.values()
              if region.reason == "locked_out"]
    if not locked:
        return found
    stays = "stays" if len(locked) == 1 else "stay"
    return Verdict(found.text, f"{found.advice} {_few(locked)} {stays} dense after too many "
                   "fallbacks: see the table of fallbacks.", found.kind)


def _shadow(run: Run) -> Verdict:
    summary = run.summary
    sent = units.percent(units.ratio(summary.shadow_bytes or 0, summary.dense_bytes))
    dense, low_bit = summary.predicted_exposed_seconds, summary.shadow_exposed_seconds
    gain = dense - low_bit if dense is not None and low_bit is not None else 0.0
    step = summary.step_seconds
    is_gain = gain > MIN_CHANGE * (step or 0)
    of_step = f" of {units.seconds(step)}" if step else ""
    what = f"shortened a step by {units.seconds(gain)}{of_step}" if is_gain else \
        "would not have shortened a step"
    text = (f"Shadow mode: everything was sent at full precision. Low bits would have sent {sent} of "
            f"the dense bytes and {what}, as predicted, not measured.")
    return Verdict(text, "Unset NF_MODE to use them." if is_gain else
                   "Low bits gain nothing on this link; set NF_MODE=off.",
                   "paid" if is_gain else "even")


def _unused(run: Run) -> Verdict:
    regions = [region for region in run.summary.regions.values() if region.route != DENSE_ROUTE]
    reasons = {region.reason for region in regions}
    trouble = [f"{region.name}: {region.reason}" for region in regions
               if region.reason in FALLBACK_REASONS]
    if not regions:
        why, advice = ("the profile sends every region at full precision",
                       "The default profile has low-bit routes; nf calibrate finds your own.")
    elif trouble:
        why, advice = (f"breaches disabled them ({_few(trouble)})",
                       "Look at the charts of these regions, and use a wider route for them.")
    elif "not_useful" in reasons:
        why, advice = ("the cost model predicted that they would not shorten a step on this link (a "
                       "prediction, not a measurement)",
                       "No action needed: gradients are reduced as in plain DDP.")
    elif reasons == {"warm_up"}:
        why, advice = "the run did not get past its warm-up", "Train for more steps."
    else:
        why, advice = "no region was admitted", "The timeline below has the reasons."
    return Verdict(f"Low bits were not used in this run: {why}.", advice, "even")


def _compared(run: Run) -> Verdict:
    dense, low_bit = run.dense_seconds, run.low_bit_seconds
    sent = f"they sent {units.percent(run.low_bit_ratio)} of the dense bytes"
    unknown = "This run does not show whether low bits paid off"
    if len(low_bit) < MIN_STEPS:
        return Verdict(f"{unknown}: it has timed {units.counted(len(dense), 'step')} without them "
                       f"and {len(low_bit):,} with them.", "Train for more steps.", "even")
    if len(dense) < MIN_STEPS:
        others = run.summary.steps - run.low_bit_steps
        took = units.seconds(statistics.median(low_bit))
        return Verdict(
            f"{unknown}: all but {others:,} of its {units.counted(run.summary.steps, 'step')} used "
            f"them, which leaves too few to compare with. A step took {took}, and {sent}.",
            f"Run the same job with NF_MODE=off and compare its step time with {took}.", "even")
    with_them, without = statistics.median(low_bit), statistics.median(dense)
    figures = (f"with them a step took {units.seconds(with_them)} (median of "
               f"{_steps(low_bit)}), without them {units.seconds(without)} (median of "
               f"{_steps(dense)}), both measured here")
    change = with_them / without - 1
    noise = 2 * math.hypot(_error_of_median(low_bit), _error_of_median(dense)) / without
    if abs(change) <= max(MIN_CHANGE, noise):
        return Verdict(f"Low bits made no measurable difference to the step time in this run: "
                       f"{figures}; {sent}.", _advice_if_even(run), "even")
    if change < 0:
        return Verdict(f"Low bits paid off in this run: {figures}, {units.percent(-change)} less; {sent}.",
                       "Keep these settings.", "paid")
    return Verdict(f"Low bits did not pay off in this run: {figures}; {sent}.",
                   _ADVICE.get(run.attach.admit, _ADVICE["useful"]), "lost")


def _steps(seconds: Collection[float]) -> str:
    is_all = len(seconds) < RECENT_STEPS
    return ("" if is_all else "the last ") + units.counted(len(seconds), "step")


def _advice_if_even(run: Run) -> str:
    change = "set NF_MODE=off" if run.attach.admit == "useful" else 'use admit="useful", the default'
    return f"Keep them if fewer bytes are useful by themselves; otherwise {change}."


def _error_of_median(values: Collection[float]) -> float:
    """The standard error of the median, from the median deviation, which is robust to a few slow steps."""
    middle = statistics.median(values)
    deviation = 1.4826 * statistics.median(abs(value - middle) for value in values)
    return 1.2533 * deviation / math.sqrt(len(values))


def _few(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
