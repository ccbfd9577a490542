"""examples/torch/diloco.py trains with local updates, and low-bit routes divide the bytes of a round."""

import json

import pytest
from examples_test import EXAMPLES, torchrun


def diloco(route: str) -> dict[str, float]:
    """The result of a short run, in which all ranks held the same bits after every outer step."""
    return json.loads(torchrun("--nproc-per-node", 2, EXAMPLES / "diloco.py", "--route", route,
                               "--inner", 5, "--rounds", 4, "--json"))


@pytest.fixture(scope="module")
def dense() -> dict[str, float]:
    return diloco("fp32")


@pytest.mark.parametrize(("route", "bits"), [("waterfill:4", 4), ("waterfill:2+ef", 2)])
def test_local_updates_at_low_bits(dense: dict[str, float], route: str, bits: int) -> None:
    low_bit = diloco(route)
    # The last part: small parameters and messages need some bytes above the budget.
    assert bits / 32 < low_bit["bytes_per_round"] / dense["bytes_per_round"] < 1.1 * bits / 32
    assert low_bit["loss"] < low_bit["first_loss"] - 0.1
    assert low_bit["loss"] < dense["loss"] + 0.2
