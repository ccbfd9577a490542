"""On a card: what the other ranks see when one dies or stops, and that their device can be used on."""

import signal
import time

import pytest
import torch
from failure_test import PHASES, TIMEOUT, error_of
from workers.job import End, Job

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(),
                                reason="no CUDA device on this machine")


def run_until(blow: signal.Signals, phase: str) -> tuple[list[End], float]:
    """The other ranks of a job whose rank 1 gets the signal, and the time when it did."""
    with Job(3, "train.py", "--device", "cuda", "--timeout", TIMEOUT, *PHASES[phase]) as job:
        job.wait_for("ready")
        given = time.time()
        job.signal(1, blow)
        ends = job.join([0, 2])
    if ends[0].event("ready")["place"] != "cuda":
        pytest.skip("the extension was built without CUDA")
    return ends, given


def check_story(ends: list[End], given: float) -> None:
    for end in ends:
        error = error_of(end)
        assert "rank 1" in (error["first"] or error["reason"]), error.group()
        assert end.event("usable")["one"] == 1
        print(f"rank {end.rank}: raised {end.event('raised')['time'] - given:.1f} s later, "
              f"usable {end.event('usable')['time'] - given:.1f} s later")


@pytest.mark.parametrize("phase", ["dense", "low_bit", "mixed"])
def test_a_killed_rank_is_named_and_devices_go_on(phase):
    check_story(*run_until(signal.SIGKILL, phase))


@pytest.mark.parametrize("phase", ["low_bit", "mixed"])
def test_a_stopped_rank_is_named_and_devices_go_on(phase):
    check_story(*run_until(signal.SIGSTOP, phase))
