"""Why a region is dense or low-bit at a step: the one table of reasons.

The names are those of the runtime (`src/runtime/decision.cc`); tests compare them and the pages
docs/admission.md and docs/telemetry.md with this table.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    name: str
    route: str  # "low-bit", "dense" or "route="
    meaning: str
    is_trouble: bool = False  # a breach of a limit, or its final consequence

    @property
    def text(self) -> str:
        """The meaning with the route that a region takes."""
        return self.meaning if self.route == "route=" else f"{self.route}: {self.meaning}"


# The most important first: reports list them, and colour a column of many steps, in this order.
TABLE = (
    Reason("non_finite", "dense", "the sum contained NaN or Inf", is_trouble=True),
    Reason("loss_spike", "dense", "the loss jumped", is_trouble=True),
    Reason("norm_spike", "dense", "the norm jumped", is_trouble=True),
    Reason("error_budget", "dense", "the error of the route exceeded its budget", is_trouble=True),
    Reason("capacity", "dense", "the reducer cannot handle it", is_trouble=True),
    Reason("locked_out", "dense", "permanently, after too many fallbacks", is_trouble=True),
    Reason("cool_down", "dense", "for some steps after a fallback"),
    Reason("probation", "low-bit", "on trial after a fallback"),
    Reason("not_useful", "dense", "low bits would not shorten the step"),
    Reason("warm_up", "dense", "the run has just started"),
    Reason("forced", "route=", "as set by the caller, without admission"),
    Reason("admitted", "low-bit", "safe and useful"),
)

REASONS = tuple(reason.name for reason in TABLE)
TROUBLE_REASONS = tuple(reason.name for reason in TABLE if reason.is_trouble)
LOW_BIT_REASONS = frozenset(reason.name for reason in TABLE if reason.route == "low-bit")
CHOSEN_REASONS = LOW_BIT_REASONS | {"forced"}  # a region uses the route of its profile
FALLBACK_REASONS = frozenset(TROUBLE_REASONS) | {"cool_down"}  # of a decision that ends low bits
