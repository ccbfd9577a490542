"""Training at full precision, with the errors that routes would make."""

import dataclasses
import math
from collections.abc import Iterator

import torch

from neuron_fabric import _C
from neuron_fabric.calibration.branch import warming_up
from neuron_fabric.calibration.evidence import Evidence, Measurement
from neuron_fabric.calibration.measure import MeasuringReduction
from neuron_fabric.calibration.store import CalibrationError
from neuron_fabric.calibration.workbench import Workbench
from neuron_fabric.session import Session
from neuron_fabric.settings import Settings

ORDER = 0  # the order of its batches


def train_densely(bench: Workbench, evidence: Evidence) -> Evidence:
    """Trains the model to the start of the branches. Raises CalibrationError if it diverges."""
    settings = bench.settings
    # Routes with memory are not measured: later sums correct the error of one sum.
    sessions = {route: bench.open(Settings(route=route, seed=settings.seed))
                for route in settings.candidates if not _C.remembers(route)}
    bench.watch.begin("dense training", settings.dense_steps)
    losses, measured = [], []
    try:
        for loss in _steps(bench, sessions, measured):
            losses.append(loss)
            bench.watch.step()
    finally:
        for session in sessions.values():
            session.close()
    means = bench.training.mean(losses)
    _reject_divergence(means)
    return dataclasses.replace(evidence, dense_losses=tuple(means), measurements=tuple(measured))


def _steps(bench: Workbench, sessions: dict[str, Session],
           measured: list[Measurement]) -> Iterator[torch.Tensor]:
    settings, training = bench.settings, bench.training
    points = {settings.dense_steps * (place + 1) // settings.measurements - 1
              for place in range(settings.measurements)}
    region_of = {id(bench.parameters.tensors[index]): region.name
                 for region in bench.regions for index in region.large_members}
    stepper = training.stepper(ORDER, warming_up(settings.dense_steps, settings.warm_up_steps))
    for step in range(settings.dense_steps):
        if step not in points:
            yield next(stepper)
            continue
        reduction = MeasuringReduction(training.ddp.process_group, region_of, sessions, training.scaler)
        with bench.switch.through(reduction):
            loss = next(stepper)
        measured += reduction.measurements(step)
        yield loss


def _reject_divergence(losses: list[float]) -> None:
    advice = "lower the learning rate, or clip gradients"
    for step, loss in enumerate(losses):
        if not math.isfinite(loss):
            raise CalibrationError("the training diverges at full precision: the loss is NaN or Inf "
                                   f"at step {step}; {advice}")
    tail = losses[-max(1, len(losses) // 4):]
    if len(losses) > 8 and sum(tail) / len(tail) > 2 * abs(losses[0]):
        raise CalibrationError(
            f"the training diverges at full precision: the loss went from {losses[0]:.4g} to "
            f"{losses[-1]:.4g} in {len(losses)} steps; {advice}")
