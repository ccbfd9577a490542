"""The health of regions measured in branches, and the limits of a profile derived from it."""

import pytest
from few_records import NOTICE, step, unmonitored
from neuron_fabric.calibration.evidence import Assignment, RegionHealth
from neuron_fabric.calibration.health import MIN_NORMS, HealthReader
from neuron_fabric.calibration.limits import error_budget, norm_spike, rounded_up

BODY = Assignment.of({"body": "waterfill:5"})


def seen(*steps):
    """The health of `body`, given its error and norm in each step."""
    reader = HealthReader()
    reader.write(NOTICE)
    for number, (error, norm) in enumerate(steps):
        record = step(number)
        record["regions"][0] |= {"error": error, "norm": norm}
        reader.write(record)
    return reader.health(BODY)


def test_health_has_the_largest_error_and_the_largest_ratio_of_norms():
    steady = [(0.25, 2.0)] * MIN_NORMS
    assert seen(*steady, (0.5, 6.0), (None, None), (0.125, 2.0)) == {"body": RegionHealth(0.5, 3.0)}


def test_early_norms_are_ignored():
    assert seen((0.25, 1.0), (0.25, 100.0)) == {"body": RegionHealth(0.25, 0.0)}


def test_dense_regions_have_no_health():
    assert set(seen((0.25, 1.0))) == {"body"}
    assert HealthReader().health(Assignment()) == {}


def travelled(*routes):
    """Whether a branch with these routes of `body`, one per step, counts; None is an unmonitored step."""
    reader = HealthReader()
    for number, route in enumerate(routes):
        record = unmonitored(number) if route is None else step(number)
        record["regions"][0] |= {"route": route} if route else {}
        reader.write(record)
    return reader.is_of(BODY)


def test_a_mostly_dense_branch_does_not_count_for_its_route():
    assert travelled("waterfill:5", "fp32")
    assert not travelled("waterfill:5", "fp32", "fp32")
    assert travelled("waterfill:5", "fp32", None)
    assert travelled()  # no records
    assert HealthReader().is_of(Assignment())


def test_merging_keeps_the_maxima():
    assert RegionHealth(0.1, 5.0).merge_maxima(RegionHealth(0.2, 3.0)) == RegionHealth(0.2, 5.0)


@pytest.mark.parametrize(("value", "up"), [(0, 0), (0.123, 0.13), (0.12, 0.12), (24.6, 25), (101, 110)])
def test_limits_are_rounded_up_to_two_significant_digits(value, up):
    assert rounded_up(value) == up


def test_limits_exceed_the_measured_values_and_the_defaults():
    assert error_budget(0.2) == pytest.approx(0.3)
    assert error_budget(0.001) == 0.1
    assert norm_spike(12.3) == 25
    assert norm_spike(1.0) == 10
