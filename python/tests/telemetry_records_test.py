"""Records are parsed, and invalid ones are rejected."""

import math

import pytest
from fake_run import records
from few_records import ATTACH, FALLBACK, step, unmonitored

from neuron_fabric.telemetry.reasons import REASONS
from neuron_fabric.telemetry.records import RecordError, parse


def test_a_record_of_an_unknown_kind_is_skipped():
    assert parse({"event": "tomorrow"}) is None


@pytest.mark.parametrize("record", [None, 5, [], {}, {"event": 5}, {"event": "step"},
                                    {"event": "step", "step": -1}, {"event": "step", "step": 1.5},
                                    {"event": "step", "step": True}, step(0, loss="low"),
                                    step(0, should_step=1),
                                    step(0, regions={}), step(0, regions=[5]),
                                    step(0, regions=[{"route": "fp32"}]), ATTACH | {"link": []},
                                    ATTACH | {"profile": None}, FALLBACK | {"to": 5},
                                    ATTACH | {"topology_ms": []}, ATTACH | {"topology_ms": {"ring": "1"}},
                                    {"event": "topology"}, {"event": "topology", "topology": 1},
                                    {"event": "measured", "step": 1, "useful": "all"},
                                    {"event": "measured", "step": 1, "useful": [5]},
                                    {"event": "measured", "step": 1, "useful": []}])
def test_invalid_records_are_rejected(record):
    with pytest.raises(RecordError):
        parse(record)


def test_missing_and_non_finite_values_are_none():
    event = parse({"event": "step", "step": 3, "loss": math.inf, "seconds": 0})
    assert (event.loss, event.seconds, event.exposed_seconds, event.regions) == (None, None, None,
                                                                                 ())
    assert parse({"event": "step", "step": 3, "loss": 10**400}).loss is None


def test_values_of_an_unmonitored_step_are_unknown():
    event = parse(unmonitored(3))
    assert event.should_step is None
    assert [region.non_finite for region in event.regions] == [None, None]
    assert (parse(step(3)).should_step, parse(step(3, should_step=False)).should_step) == (True,
                                                                                           False)


@pytest.mark.parametrize("before, after, is_fallback", [
    ("admitted", "non_finite", True), ("probation", "error_budget", True),
    ("admitted", "locked_out", True), ("admitted", "not_useful", False),
    ("non_finite", "cool_down", False), ("non_finite", "locked_out", False),
    ("warm_up", "admitted", False), ("admitted", "admitted", False)])
def test_a_fallback_replaces_a_low_bit_route_after_a_fault(before, after, is_fallback):
    assert parse(FALLBACK | {"from": before, "to": after}).is_fallback == is_fallback


def test_a_region_whose_route_is_dense_does_not_fall_back():
    locked = FALLBACK | {"from": "admitted", "to": "locked_out", "is_low_bit": False}
    assert parse(locked).is_fallback
    assert parse(locked | {"was_low_bit": True}).is_fallback
    assert not parse(locked | {"was_low_bit": False}).is_fallback
    with pytest.raises(RecordError):
        parse(locked | {"was_low_bit": 1})


def test_the_synthetic_run_has_every_reason_except_forced():
    seen = {region["reason"] for record in records(steps=3000) if record["event"] == "step"
            for region in record["regions"]}
    assert seen == set(REASONS) - {"forced"}
