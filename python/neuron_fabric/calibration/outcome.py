"""The result of a calibration: the selected routes, and the profile with its evidence."""

import json
import math
import os
from dataclasses import dataclass
from typing import Any

import torch

from neuron_fabric.calibration import text
from neuron_fabric.calibration.choice import Choice, most_harm
from neuron_fabric.calibration.evidence import (
    CHECKPOINT, FIRST_STEP, Assignment, Branches, Evidence, Measurement, RegionHealth)
from neuron_fabric.calibration.harm import Harm, harm_of
from neuron_fabric.calibration.limits import error_budget, norm_spike
from neuron_fabric.calibration.settings import CalibrationSettings
from neuron_fabric.profile import Profile
from neuron_fabric.support import provenance
from neuron_fabric.support.files import write_atomic
from neuron_fabric.telemetry.records import DENSE_ROUTE


@dataclass(frozen=True)
class Outcome:
    settings: CalibrationSettings
    evidence: Evidence
    choice: Choice
    patterns: tuple[dict[str, Any], ...]  # the regions in the syntax of profiles
    device: torch.device                  # of the model

    @property
    def meets_target(self) -> bool:
        """If false, no assignment meets it, and the profile is dense."""
        return self.choice.meets_target

    def profile(self, name: str = "calibrated", **also: object) -> Profile:
        """also: further fields of its provenance."""
        return Profile.parse(json.dumps(self._profile(name, also)), name)

    def save(self, path: str | os.PathLike, name: str = "calibrated", **also: object) -> None:
        write_atomic(path, self.profile(name, **also).text)

    def to_dict(self) -> dict[str, Any]:
        """The results, for programs and for text.py."""
        choice, evidence = self.choice, self.evidence
        return {
            "ranks": evidence.ranks, "target": str(self.settings.target),
            "most_harm": choice.most_harm, "meets_target": choice.meets_target,
            "chosen": {region.name: choice.assignment.route(region.name)
                       for region in evidence.regions},
            "at_first": None if choice.at_first is None else dict(choice.at_first.routes),
            "bytes_up_ratio": evidence.bytes_up_ratio(choice.assignment),
        } | _harm(choice.harm) | {
            "branches": [self.row(branches) for branches in evidence.branches],
            "routes": self.route_rows()}

    def __str__(self) -> str:
        values = self.to_dict()
        return f"{text.tables(values)}\n\n{text.conclusion(values)}"

    def _profile(self, name: str, also: dict[str, object]) -> dict[str, Any]:
        seen = self._seen()
        health: dict[str, float] = {
            "warm_up_steps": self.settings.dense_steps if self.choice.at_first is None else 0}
        if seen:
            health["norm_spike"] = norm_spike(max(one.norm_ratio for one in seen.values()))
        return {
            "format": "neuron_fabric.profile", "version": 1, "name": name,
            "regions": [pattern | ({"error_budget": error_budget(seen[pattern["name"]].error)}
                                   if pattern["name"] in seen else {}) for pattern in self.patterns],
            "phases": self._phases(),
            "health": health,
            "smallest_parameter": self.settings.smallest_parameter,
            "provenance": self._provenance() | also,
        }

    def _phases(self) -> list[dict[str, Any]]:
        chosen, at_first = self.choice.assignment, self.choice.at_first
        phases = [(0, chosen)]
        if at_first is not None and at_first != chosen:
            phases = [(0, at_first), (self.settings.dense_steps, chosen)]
        return [{"from_step": step, "routes": {
            pattern["name"]: routes.route(pattern["name"]) for pattern in self.patterns}}
            for step, routes in phases]

    def _seen(self) -> dict[str, RegionHealth]:
        """By region, the maxima of all branches on the selected routes."""
        tried = [self.evidence.find(self.choice.assignment, CHECKPOINT)]
        if self.choice.at_first is not None:
            tried.append(self.evidence.find(self.choice.at_first, FIRST_STEP))
        seen: dict[str, RegionHealth] = {}
        for branches in filter(None, tried):
            for region, one in branches.health.items():
                seen[region] = one.merge_maxima(seen.get(region, one))
        return seen

    def _provenance(self) -> dict[str, Any]:
        versions = provenance.versions()
        return {
            "made_by": "nf calibrate",
            "version": versions["neuron_fabric"],
            "torch": versions["torch"],
            "commit": provenance.commit(),
            "machine": provenance.describe_machine(provenance.machine(self.device)),
            "ranks": self.evidence.ranks,
            "settings": self.settings.to_dict(),
            "chosen": dict(self.choice.assignment.routes),
            "meets_target": self.choice.meets_target,
            "most_harm": self.choice.most_harm,
            "bytes_up_ratio": self.evidence.bytes_up_ratio(self.choice.assignment),
            "table": [self.row(branches) for branches in self.evidence.branches],
            "routes": self.route_rows(),
            "evidence": self.evidence.to_dict(),
        }

    def row(self, branches: Branches) -> dict[str, Any]:
        """The harm of one assignment, for text and charts."""
        harm = harm_of(self.evidence, branches.assignment, branches.start)
        assert harm is not None
        return {
            "start": branches.start, "routes": dict(branches.assignment.routes),
            "bytes_up_ratio": self.evidence.bytes_up_ratio(branches.assignment),
        } | _harm(harm) | {
            "within_target": harm.at_worst <= most_harm(
                self.evidence, self.settings, branches.start),
            "chosen": branches.assignment == (
                self.choice.assignment if branches.start == CHECKPOINT else self.choice.at_first)}

    def route_rows(self) -> list[dict[str, Any]]:
        """By region and route: its bytes, the error of its sums, and its harm."""
        rows = []
        for region in self.evidence.low_bit_regions:
            for route in self.evidence.candidates:
                found = [one for one in self.evidence.measurements
                         if (one.region, one.route) == (region.name, route)]
                harm = harm_of(self.evidence, Assignment.of({region.name: route}), CHECKPOINT)
                rows.append({
                    "region": region.name, "route": route, "bytes_up": region.bytes_up[route],
                    "dense_bytes": region.bytes_up[DENSE_ROUTE],
                    "error": _mean(found, "error"), "slope": _mean(found, "slope"),
                    "agreement": _mean(found, "agreement"),
                    "chosen": self.choice.assignment.route(region.name) == route,
                } | (_harm(harm) if harm else {"harm": None, "standard_error": None, "pairs": 0}))
        return rows


def _harm(harm: Harm) -> dict[str, Any]:
    """With pairs, a harm of None means that it diverged."""
    return {"harm": harm.mean if math.isfinite(harm.mean) else None,
            "standard_error": harm.standard_error, "pairs": harm.pairs}


def _mean(found: list[Measurement], key: str) -> float | None:
    """None if one is NaN or Inf."""
    values = [getattr(one, key) for one in found]
    return sum(values) / len(values) if values and None not in values else None
