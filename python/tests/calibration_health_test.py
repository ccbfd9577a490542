"""What branches show of a region's health, and the limits of a profile that stand above it."""

import pytest
from few_records import NOTICE, step, unwatched
from neuron_fabric.calibration.evidence import Assignment, RegionHealth
from neuron_fabric.calibration.health import MIN_NORMS, HealthReader
from neuron_fabric.calibration.limits import error_budget, norm_spike, rounded_up

BODY = Assignment.of({"body": "waterfill:5"})


def seen(*steps):
    """steps: error and norm of the region `body`."""
    reader = HealthReader()
    reader.write(NOTICE)
    for number, (error, norm) in enumerate(steps):
        record = step(number)
        record["regions"][0] |= {"error": error, "norm": norm}
        reader.write(record)
    return reader.health(BODY)


def test_the_most_of_errors_and_of_norms_beside_those_before():
    steady = [(0.25, 2.0)] * MIN_NORMS
    assert seen(*steady, (0.5, 6.0), (None, None), (0.125, 2.0)) == {"body": RegionHealth(0.5, 3.0)}


def test_early_norms_are_not_judged():
    assert seen((0.25, 1.0), (0.25, 100.0)) == {"body": RegionHealth(0.25, 0.0)}


def test_regions_at_full_precision_have_no_health():
    assert set(seen((0.25, 1.0))) == {"body"}
    assert HealthReader().health(Assignment()) == {}


def travelled(*routes):
    """As which route `body` did, step by step; None where nobody watched."""
    reader = HealthReader()
    for number, route in enumerate(routes):
        record = unwatched(number) if route is None else step(number)
        record["regions"][0] |= {"route": route} if route else {}
        reader.write(record)
    return reader.is_of(BODY)


def test_a_branch_that_was_mostly_dense_is_of_no_route():
    assert travelled("waterfill:5", "fp32")
    assert not travelled("waterfill:5", "fp32", "fp32")
    assert travelled("waterfill:5", "fp32", None)
    assert travelled()  # nothing is known
    assert HealthReader().is_of(Assignment())


def test_the_worse_of_two():
    assert RegionHealth(0.1, 5.0).merge_maxima(RegionHealth(0.2, 3.0)) == RegionHealth(0.2, 5.0)


@pytest.mark.parametrize(("value", "up"), [(0, 0), (0.123, 0.13), (0.12, 0.12), (24.6, 25), (101, 110)])
def test_two_digits_that_count(value, up):
    assert rounded_up(value) == up


def test_limits_stand_above_what_was_seen_and_above_the_defaults():
    assert error_budget(0.2) == pytest.approx(0.3)
    assert error_budget(0.001) == 0.1
    assert norm_spike(12.3) == 25
    assert norm_spike(1.0) == 10
