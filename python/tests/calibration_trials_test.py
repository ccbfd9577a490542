"""The result of the branches of one question, without actual training."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from few_records import step
from neuron_fabric.calibration import trials
from neuron_fabric.calibration.choice import Question
from neuron_fabric.calibration.evidence import CHECKPOINT, Assignment, Evidence, RegionHealth
from neuron_fabric.calibration.watch import Watch

NORMS = [10 * 0.85**number for number in range(60)]  # as in healthy training
BODY = Assignment.of({"body": "waterfill:5"})


@contextmanager
def recorded_branch(_bench, _assignment, order, reader):
    for number, norm in enumerate(NORMS):
        record = step(number)
        record["regions"][0] |= {"norm": norm, "error": 0.1 * (order + 1)}
        reader.write(record)
    yield


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(trials, "_reduction", recorded_branch)
    monkeypatch.setattr(trials, "_branch", lambda *_: 1.0)
    return SimpleNamespace(watch=Watch(), settings=SimpleNamespace(branch_steps=len(NORMS)))


def test_norms_are_compared_within_one_branch(bench):
    evidence = Evidence(ranks=2, regions=(), candidates=("waterfill:5",))
    once = trials.answer(bench, Question(CHECKPOINT, BODY, 1), evidence)
    assert once.health["body"].norm_ratio < 0.4
    twice = trials.answer(bench, Question(CHECKPOINT, BODY, 2), evidence)
    assert twice.losses == (1.0, 1.0)
    assert twice.health == {"body": RegionHealth(0.2, once.health["body"].norm_ratio)}
    # The result is the same if the second branch runs later.
    assert trials.answer(bench, Question(CHECKPOINT, BODY, 2), evidence.with_branches(once)) == twice


def test_a_mostly_dense_branch_has_no_loss(bench, monkeypatch):
    @contextmanager
    def fallen_back(_bench, _assignment, order, reader):
        for number in range(10):
            record = step(number)
            if order == 1 and number > 3:
                record["regions"][0] |= {"route": "fp32", "reason": "cool_down"}
            reader.write(record)
        yield

    monkeypatch.setattr(trials, "_reduction", fallen_back)
    evidence = Evidence(ranks=2, regions=(), candidates=("waterfill:5",))
    assert trials.answer(bench, Question(CHECKPOINT, BODY, 3), evidence).losses == (1.0, None, 1.0)
