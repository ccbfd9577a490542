"""Answers questions of the search with short branches from one start, on the batches of the dense
branches."""

from collections.abc import Iterator
from contextlib import contextmanager

from neuron_fabric.calibration.branch import annealing, warming_up
from neuron_fabric.calibration.choice import Question
from neuron_fabric.calibration.evidence import FIRST_STEP, Assignment, Branches, Evidence
from neuron_fabric.calibration.health import HealthReader
from neuron_fabric.calibration.store import CalibrationError
from neuron_fabric.calibration.switch import SessionReduction
from neuron_fabric.calibration.workbench import Workbench
from neuron_fabric.settings import Settings
from neuron_fabric.telemetry.stream import Reader


def answer(bench: Workbench, question: Question, evidence: Evidence) -> Branches:
    """Runs the requested branches, after the existing ones. Collective."""
    known = evidence.find(question.assignment, question.start)
    losses = list(known.losses) if known else []
    bench.watch.begin(title(question),
                      bench.settings.branch_steps * (question.repeats - len(losses)))
    health = dict(known.health) if known else {}
    for order in range(len(losses), question.repeats):
        # Every branch has its own session, so that residuals do not reach the next one, and its own
        # reader, so that norms start from zero.
        reader = HealthReader()
        with _reduction(bench, question.assignment, order, reader):
            loss = _branch(bench, question.start, order + 1)
        losses.append(loss if reader.is_of(question.assignment) else None)
        for region, seen in reader.health(question.assignment).items():
            health[region] = seen.merge_maxima(health.get(region, seen))
    if None in losses and not question.assignment.routes:
        raise CalibrationError("the training diverges at full precision: the loss of a branch is NaN or "
                               "Inf; lower the learning rate, or clip gradients")
    return Branches(question.start, question.assignment, tuple(losses), health)


@contextmanager
def _reduction(bench: Workbench, assignment: Assignment, order: int, reader: Reader) -> Iterator[None]:
    if not assignment.routes:
        yield  # as in dense training
        return
    session = bench.open(Settings(profile=bench.trial_profile(assignment), admit="safe",
                                  seed=bench.settings.seed + order, readers=[reader]))
    try:
        with bench.switch.through(SessionReduction(session, bench.training.scaler)):
            yield
    finally:
        session.close()


def _branch(bench: Workbench, start: str, order: int) -> float | None:
    steps, training = bench.settings.branch_steps, bench.training
    bench.snapshots[start].restore(training.parts)
    rates = annealing(steps)
    if start == FIRST_STEP:
        up = warming_up(steps, bench.settings.warm_up_steps)
        rates = [down * factor for down, factor in zip(rates, up, strict=True)]
    losses = []
    for loss in training.stepper(order, rates):
        losses.append(loss)
        bench.watch.step()
    return training.loss(training.mean(losses))


def title(question: Question) -> str:
    where = " from the first step" if question.start == FIRST_STEP else ""
    return f"{question.assignment}{where}"
