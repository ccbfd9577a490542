"""Calibrations of a small model, on the ranks of a test."""

import os
from unittest import mock

import neuron_fabric as nf
import pytest
import small_job
import torch
from neuron_fabric.calibration.store import CalibrationError

OPTIONS = {"dense_steps": 8, "warm_up_steps": 2, "branch_steps": 6, "repeats": 2, "measurements": 2,
           "smallest_parameter": 0, "target": "0.5", "candidates": ("g_binary", "waterfill:4")}


class Killed(Exception):
    """Stands for a killed job."""


def make_calibrator(rate: float = 0.05, die_after: int | None = None, is_same_order: bool = False,
                    scale: float = 1.0, **options: object) -> nf.Calibrator:
    """die_after: steps until it raises Killed. scale: factor of the loss."""
    model = small_job.wrap(small_job.make())
    optimizer = small_job.sgd(model, rate / scale)
    done = 0

    def step(batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        nonlocal done
        if done == die_after:
            raise Killed
        done += 1
        optimizer.zero_grad()
        loss = scale * small_job.loss_of(model, batch)
        loss.backward()
        optimizer.step()
        return loss

    return nf.Calibrator(
        model, optimizer, step,
        lambda order: small_job.batches(seed=0 if is_same_order else order), **(OPTIONS | options))


def profile_of(calibrator: nf.Calibrator) -> dict:
    """With a fixed commit, in case the repository changes while tests run."""
    with mock.patch.dict(os.environ, NF_COMMIT="0123456789ab"):
        return calibrator.run().profile().to_dict()


def interrupted(folder: str, die_after: int) -> None:
    with pytest.raises(Killed):
        make_calibrator(die_after=die_after, out=folder).run()


def resumed(folder: str) -> dict:
    return profile_of(make_calibrator(out=folder, resume=True))


def rejected(folder: str, **options: object) -> str:
    with pytest.raises((CalibrationError, RuntimeError)) as error:
        make_calibrator(out=folder, resume=True, **options)
    return str(error.value)
