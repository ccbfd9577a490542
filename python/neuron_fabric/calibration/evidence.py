"""The results of a calibration, as values that can be saved and loaded.

The selection of routes is a pure function of them (choice.py), so an interrupted calibration continues
from the saved results.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from neuron_fabric.telemetry.records import DENSE_ROUTE

CHECKPOINT = "checkpoint"  # branches that start from the trained checkpoint
FIRST_STEP = "first step"  # branches that start from the untrained model


class EvidenceError(ValueError):
    """Text that is not evidence."""


@dataclass(frozen=True)
class RegionFacts:
    """A region of the model. `values` excludes parameters that are too small to leave the dense route."""

    name: str
    parameters: int
    values: int
    small_values: int
    bytes_up: Mapping[str, int]  # by route: contribution of one rank for `values` per step

    @property
    def can_be_low_bit(self) -> bool:
        return self.values > 0


@dataclass(frozen=True)
class Measurement:
    """The error of a route on the sum of one region's gradients, at one step of dense training. None
    if that is NaN or Inf and the exact sum is not."""

    step: int
    region: str
    route: str
    error: float | None      # ‖sum − exact‖² / ‖exact‖²
    slope: float | None      # <sum, exact> / <exact, exact>: below 1 it shrinks
    agreement: float | None  # the share of non-zero values that keep their sign


@dataclass(frozen=True)
class Assignment:
    """Routes by region; regions without a route are dense."""

    routes: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(routes: Mapping[str, str]) -> "Assignment":
        return Assignment(tuple(sorted((region, route) for region, route in routes.items()
                                       if route != DENSE_ROUTE)))

    def route(self, region: str) -> str:
        return dict(self.routes).get(region, DENSE_ROUTE)

    def __str__(self) -> str:
        return ", ".join(f"{region}={route}" for region, route in self.routes) or "all dense"


@dataclass(frozen=True)
class RegionHealth:
    """The monitor's figures for a region while it used low bits."""

    error: float       # the maximum of one rank's contributions, ‖g − Q(g)‖² / ‖g‖²
    norm_ratio: float  # the maximum of norm / mean of the norms before

    def merge_maxima(self, other: "RegionHealth") -> "RegionHealth":
        """The maximum of both."""
        return RegionHealth(max(self.error, other.error), max(self.norm_ratio, other.norm_ratio))


@dataclass(frozen=True)
class Branches:
    """One assignment tried from one start, once per batch order."""

    start: str
    assignment: Assignment
    # By batch order; None if it diverged, or was mostly dense.
    losses: tuple[float | None, ...]
    health: Mapping[str, RegionHealth] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """Grows by one Measurement or one Branches at a time."""

    ranks: int
    regions: tuple[RegionFacts, ...]
    candidates: tuple[str, ...]
    dense_losses: tuple[float, ...] = ()  # one per step of dense training
    measurements: tuple[Measurement, ...] = ()
    branches: tuple[Branches, ...] = ()

    def find(self, assignment: Assignment, start: str = CHECKPOINT) -> Branches | None:
        for branches in self.branches:
            if branches.assignment == assignment and branches.start == start:
                return branches
        return None

    def rejects(self, assignment: Assignment) -> bool:
        """Whether one of its routes has turned finite gradients into NaN or Inf."""
        return any(one.error is None and assignment.route(one.region) == one.route
                   for one in self.measurements)

    def with_branches(self, branches: Branches) -> "Evidence":
        """Replaces branches of the same assignment and start."""
        kept = tuple(other for other in self.branches
                     if (other.assignment, other.start) != (branches.assignment, branches.start))
        return dataclasses.replace(self, branches=(*kept, branches))

    @property
    def low_bit_regions(self) -> tuple[RegionFacts, ...]:
        return tuple(region for region in self.regions if region.can_be_low_bit)

    def bytes_up(self, assignment: Assignment) -> int:
        """The contribution of one rank per step, for the whole model."""
        return sum(region.bytes_up[assignment.route(region.name)] + 4 * region.small_values
                   for region in self.regions)

    @property
    def dense_bytes(self) -> int:
        return sum(4 * (region.values + region.small_values) for region in self.regions)

    def bytes_up_ratio(self, assignment: Assignment) -> float:
        return self.bytes_up(assignment) / self.dense_bytes

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        result = dataclasses.asdict(self)
        for text, branches in zip(result["branches"], self.branches, strict=True):
            text["assignment"] = dict(branches.assignment.routes)
        return result

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Evidence":
        """Raises EvidenceError if to_dict() did not make `values`."""
        try:
            return Evidence(
                ranks=int(values["ranks"]),
                regions=tuple(RegionFacts(**region) for region in values["regions"]),
                candidates=tuple(map(str, values["candidates"])),
                dense_losses=tuple(map(float, values["dense_losses"])),
                measurements=tuple(Measurement(**one) for one in values["measurements"]),
                branches=tuple(_branches(one) for one in values["branches"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EvidenceError(f"not the evidence of a calibration: {error!r}") from error


def _branches(values: Mapping[str, Any]) -> Branches:
    losses = tuple(None if loss is None else float(loss) for loss in values["losses"])
    if any(loss is not None and not math.isfinite(loss) for loss in losses):
        raise ValueError("a loss is NaN or Inf")
    return Branches(
        start=values["start"], assignment=Assignment.of(values["assignment"]), losses=losses,
        health={region: RegionHealth(**seen) for region, seen in values["health"].items()})
