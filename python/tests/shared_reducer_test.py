"""Training over the memory-side reducer in shared memory is training over the ring, to the bit."""

import neuron_fabric as nf
import pytest
from ranks import on_ranks
from small_job import profile
from training_modes import STEPS, Run, plainly

ROUTES = ["g_binary", "g_ternary"]


def over(route: str, **options: object) -> Run:
    """The head dense, by the process group's own all-reduce; the rest on `route`, come what may."""
    how = profile({"head": "fp32", "backbone": route}, health={"error_budget": 100.0},
                  regions=[{"name": "head", "names": ["head.*"]}, {"name": "backbone"}])
    return plainly(lambda ddp: nf.attach(ddp, how, admit="safe", **options))


@pytest.mark.parametrize("route", ROUTES)
def test_trains_as_over_the_ring(route):
    ring = on_ranks(4, over, route, topology="ring")
    shared = on_ranks(4, over, route, reducer="cxl")
    assert len({run.digests[-1] for run in shared}) == 1, "ranks hold different parameters"
    for one, other in zip(shared, ring, strict=True):
        assert one.steps == STEPS
        assert one.digests == other.digests
        assert one.bytes_ratio < 0.7, "nothing has travelled at low bits"


def test_other_routes_stay_between_ranks():
    shared = on_ranks(2, over, "waterfill:4", reducer="cxl", topology="ring")
    ring = on_ranks(2, over, "waterfill:4", topology="ring")
    assert [run.digests for run in shared] == [run.digests for run in ring]


def test_an_unknown_reducer_is_refused():
    with pytest.raises(ValueError, match="reducer is one of ranks, cxl, not 'fpga'"):
        nf.HookState(None, reducer="fpga")
