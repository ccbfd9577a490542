"""nf.Calibrator around a training loop with a GradScaler, on real ranks."""

import math
from typing import ClassVar
from unittest import mock

import neuron_fabric as nf
import small_job
import torch
from neuron_fabric.calibration import trials
from neuron_fabric.calibration.health import HealthReader
from ranks import on_ranks
from small_calibration import OPTIONS


class _Recorded(HealthReader):
    """Keeps all instances, one per branch."""

    made: ClassVar[list] = []

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)


def under_a_scaler() -> tuple[list[float], list[float], list[float | None]]:
    """The second step of every branch has non-finite gradients; the scale doubles in the other steps.
    Returns, per branch: the share of low-bit steps, the ratio of norms, the losses."""
    model = small_job.wrap(small_job.make())
    optimizer = small_job.sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=1)
    is_corrupt = False
    model.module.second.weight.register_hook(lambda grad: grad * math.inf if is_corrupt else grad)

    def step(numbered: tuple) -> torch.Tensor:
        nonlocal is_corrupt
        number, batch = numbered
        is_corrupt = number == 1
        optimizer.zero_grad()
        loss = small_job.loss_of(model, batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    with mock.patch.object(trials, "HealthReader", _Recorded):
        evidence = nf.Calibrator(
            model, optimizer, step, lambda order: enumerate(small_job.batches(seed=order)),
            stateful=[scaler], **(OPTIONS | {"branch_steps": 16})).run().evidence
    low_bit = [one for one in evidence.branches if "backbone" in one.health]
    shares = [one._low_bit_steps["backbone"] / one._steps["backbone"] for one in _Recorded.made
              if one._low_bit_steps["backbone"]]
    return (shares, [one.health["backbone"].norm_ratio for one in low_bit],
            [loss for one in low_bit for loss in one.losses])


def test_a_grad_scaler_causes_few_dense_steps_and_no_norm_spikes():
    shares, ratios, losses = on_ranks(2, under_a_scaler)[0]
    assert min(shares) >= 0.75
    assert max(ratios) < 3  # although the scale grows several thousand times
    assert losses and None not in losses
