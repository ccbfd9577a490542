"""Selects routes for a model: a pure function of the evidence and the settings.

The search is written as if every result were known. If one is missing, it becomes the next question,
and the search starts again once it is answered: the evidence is the only state.

For each candidate route, the cheapest first:
  1. all regions use it; if that is within the target, go to 3;
  2. regions return to dense, first the one whose low bits do most harm per byte saved, until the rest
     is within the target;
  3. a region that stays must be worth its risk: its own harm, in the worst case, may be WORTH times its
     part of the target, in proportion to the bytes that it saves. A region of few bytes is therefore
     dense unless the evidence shows no harm at all;
  4. a region that became dense uses the next better route, if that saves SMALLEST_GAIN of the dense
     bytes and stays within the target.

The selection is then tried from the first step on. If it does too much harm there, the first steps use
the cheapest better route that does not, or stay dense.
"""

from dataclasses import dataclass

from neuron_fabric.calibration.evidence import (
    CHECKPOINT, FIRST_STEP, Assignment, Evidence, RegionFacts)
from neuron_fabric.calibration.harm import Harm, harm_of
from neuron_fabric.calibration.settings import CalibrationSettings
from neuron_fabric.telemetry.records import DENSE_ROUTE

WORTH = 3
SMALLEST_GAIN = 0.01
MAX_REPEATS = 2  # times the repeats of the settings, for results that are too close to call


@dataclass(frozen=True)
class Question:
    """Branches to run next, so that there are `repeats` of them."""

    start: str
    assignment: Assignment
    repeats: int


@dataclass(frozen=True)
class Choice:
    assignment: Assignment
    harm: Harm
    most_harm: float     # the target as an increase of the loss
    meets_target: bool   # otherwise no assignment does, and everything is dense
    # For the first steps, up to the start of the branches; None if those should stay dense.
    at_first: Assignment | None


class _Missing(Exception):
    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question


def next_question(evidence: Evidence, settings: CalibrationSettings) -> Question | None:
    """The next trial; None if the evidence suffices."""
    try:
        choose(evidence, settings)
    except _Missing as missing:
        return missing.question
    return None


def choose(evidence: Evidence, settings: CalibrationSettings) -> Choice:
    """Precondition: next_question() is None."""
    search = _Search(evidence, settings)
    best: Assignment | None = None
    for route in search.by_cost(list(settings.candidates)):
        everywhere = search.all_on(route)
        limit = settings.most_bytes if best is None else evidence.bytes_up_ratio(best)
        if evidence.bytes_up_ratio(everywhere) >= limit:
            break
        found = search.cheapest_on(route)
        if found.routes and evidence.bytes_up_ratio(found) < limit:
            best = found
    if best is None:
        return Choice(Assignment(), Harm(0.0, 0.0, 0), search.most_harm, meets_target=False,
                      at_first=None)
    return Choice(best, search.harm(best), search.most_harm, meets_target=True,
                  at_first=search.at_first(best))


def most_harm(evidence: Evidence, settings: CalibrationSettings, start: str) -> float:
    """The maximum increase of the loss. Precondition: there are dense branches."""
    dense = evidence.find(Assignment(), start)
    losses = [loss for loss in dense.losses if loss is not None] if dense else []
    return settings.target.most_harm(sum(losses) / max(1, len(losses)))


class _Search:
    def __init__(self, evidence: Evidence, settings: CalibrationSettings) -> None:
        self.evidence = evidence
        self.settings = settings
        self.regions = {region.name: region for region in evidence.low_bit_regions}
        self.most_harm = self._most_harm(CHECKPOINT)

    def _most_harm(self, start: str) -> float:
        if self.evidence.find(Assignment(), start) is None:
            raise _Missing(Question(start, Assignment(), self.settings.repeats))
        return most_harm(self.evidence, self.settings, start)

    # The results of an assignment.

    def harm(self, assignment: Assignment, start: str = CHECKPOINT, repeats: int = 0) -> Harm:
        repeats = repeats or self.settings.repeats
        is_tried = not self.evidence.rejects(assignment)  # a rejected assignment needs no trial
        for needed in (Assignment(), assignment) if is_tried else ():
            tried = self.evidence.find(needed, start)
            if tried is None or len(tried.losses) < repeats:
                raise _Missing(Question(start, needed, repeats))
        found = harm_of(self.evidence, assignment, start)
        assert found is not None
        return found

    def is_within_target(self, assignment: Assignment, start: str = CHECKPOINT) -> bool:
        if not assignment.routes:
            return True
        limit = self._most_harm(start)
        most = MAX_REPEATS * self.settings.repeats
        harm = self.harm(assignment, start)
        # Too close to call. First steps vary more, and there are better routes for them.
        while (start == CHECKPOINT and abs(harm.mean - limit) < harm.standard_error
               and harm.pairs < most):
            harm = self.harm(assignment, start, min(most, harm.pairs + self.settings.repeats))
        return harm.at_worst <= limit

    # Costs.

    def by_cost(self, routes: list[str]) -> list[str]:
        return sorted(routes, key=lambda route: self.evidence.bytes_up(self.all_on(route)))

    def all_on(self, route: str) -> Assignment:
        return Assignment.of(dict.fromkeys(self.regions, route))

    def saved(self, region: RegionFacts, route: str) -> int:
        return max(0, region.bytes_up[DENSE_ROUTE] - region.bytes_up[route])

    # The steps of the search.

    def at_first(self, chosen: Assignment) -> Assignment | None:
        tried = [chosen]
        for route in self.by_cost(list(self.settings.candidates)):
            better = Assignment.of({name: self._more_expensive(name, old, route)
                                    for name, old in chosen.routes})
            if better not in tried:
                tried.append(better)
        return next((one for one in tried if self.is_within_target(one, FIRST_STEP)), None)

    def _more_expensive(self, name: str, *routes: str) -> str:
        return max(routes, key=lambda route: self.regions[name].bytes_up[route])

    def cheapest_on(self, route: str) -> Assignment:
        kept = self._within_target(route, [name for name, region in self.regions.items()
                                           if self.saved(region, route) > 0])
        kept = self._worth_the_risk(route, kept)
        if not kept:
            return Assignment()
        found = Assignment.of(dict.fromkeys(kept, route))
        return self._with_better_routes(found, route)

    def _within_target(self, route: str, kept: list[str]) -> list[str]:
        while kept and not self.is_within_target(Assignment.of(dict.fromkeys(kept, route))):
            if len(kept) == 1:
                return []
            kept = [name for name in kept if name != self._worst(route, kept)]
        return kept

    def _worst(self, route: str, names: list[str]) -> str:
        """The region whose low bits do most harm, in the worst case, per byte saved."""
        return max(names, key=lambda name: self.harm(Assignment.of({name: route})).at_worst
                   / self.saved(self.regions[name], route))

    def _worth_the_risk(self, route: str, kept: list[str]) -> list[str]:
        if len(kept) < 2:
            return kept
        saved = {name: self.saved(self.regions[name], route) for name in kept}
        total = sum(saved.values())
        worth = [name for name in kept
                 if self.harm(Assignment.of({name: route})).at_worst
                 <= WORTH * self.most_harm * saved[name] / total]
        return worth if len(worth) == len(kept) else self._within_target(route, worth)

    def _with_better_routes(self, found: Assignment, route: str) -> Assignment:
        later = self.by_cost(list(self.settings.candidates))
        later = later[later.index(route) + 1:]
        dense = [name for name in self.regions if found.route(name) == DENSE_ROUTE]
        for name in sorted(dense, key=lambda name: -self.regions[name].values):
            for better in later:
                gain = self.saved(self.regions[name], better) / self.evidence.dense_bytes
                tried = Assignment.of(dict(found.routes) | {name: better})
                if gain >= SMALLEST_GAIN and self.is_within_target(tried):
                    found = tried
                    break
        return found
