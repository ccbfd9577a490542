"""The increase of the loss at low bits, with its standard error.

Every branch is paired with a dense one on the same batches, and the differences of pairs are compared.
Their deviation is estimated from all assignments together, since each alone has too few pairs.
"""

import math
from dataclasses import dataclass

from neuron_fabric.calibration.evidence import CHECKPOINT, Assignment, Evidence


@dataclass(frozen=True)
class Harm:
    """The increase of the loss over dense branches."""

    mean: float  # infinite if a branch diverged, or a route was rejected or fell back to dense
    standard_error: float
    pairs: int

    @property
    def at_worst(self) -> float:
        """One standard error above the mean."""
        return self.mean + self.standard_error


def differences(evidence: Evidence, assignment: Assignment, start: str = CHECKPOINT) -> list[float]:
    """By batch order; infinite if the branch diverged. Empty if it was not tried."""
    tried, dense = evidence.find(assignment, start), evidence.find(Assignment(), start)
    if tried is None or dense is None:
        return []
    pairs = zip(tried.losses, dense.losses, strict=False)
    return [math.inf if loss is None else loss - base for loss, base in pairs if base is not None]


def deviation_of_pairs(evidence: Evidence, start: str = CHECKPOINT) -> float:
    """The standard deviation of a difference around its assignment's mean, pooled over assignments that
    did not diverge; 0 if no assignment was tried twice."""
    squares, freedoms = 0.0, 0
    for branches in evidence.branches:
        if branches.start != start or branches.assignment == Assignment():
            continue
        found = differences(evidence, branches.assignment, start)
        if len(found) < 2 or math.inf in found:
            continue
        mean = sum(found) / len(found)
        squares += sum((value - mean) ** 2 for value in found)
        freedoms += len(found) - 1
    return math.sqrt(squares / freedoms) if freedoms else 0.0


def harm_of(evidence: Evidence, assignment: Assignment, start: str = CHECKPOINT) -> Harm | None:
    """None if the assignment was not tried. The empty assignment equals dense by definition."""
    if assignment == Assignment():
        return Harm(0.0, 0.0, 0)
    if evidence.rejects(assignment):
        return Harm(math.inf, 0.0, 0)
    found = differences(evidence, assignment, start)
    if not found:
        return None
    error = deviation_of_pairs(evidence, start) / math.sqrt(len(found))
    return Harm(sum(found) / len(found), error, len(found))
