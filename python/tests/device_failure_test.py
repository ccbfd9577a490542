"""On a card: what the other ranks see when one dies or stops, and that their device can be used on."""

import re
import signal
import time

import pytest
import torch
from failure_test import PHASES, TIMEOUT
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


def was_ended_by_torch(end: End) -> bool:
    """The watchdog of DDP's own group, which sums dense values, may have seen the loss, too. It then
    ends the process a minute later, as it does without us, if that has not ended before."""
    return end.code == -signal.SIGABRT and "watchdog thread terminated with exception" in end.errors


def check_story(ends: list[End], given: float) -> None:
    for end in ends:
        if not was_ended_by_torch(end):
            end.check_clean()
            assert end.code == 1, f"rank {end.rank}: exit code {end.code}\n{end.errors}"
        # It shows in a bucket, or in the exchange at the end of a step.
        message = end.event("raised")["message"]
        assert re.match(rf"neuron_fabric: step \d+, (bucket \d+, )?rank {end.rank}: ", message), message
        assert re.search(r"\brank 1\b", message.split(": ", 2)[2]), message
        assert end.event("usable")["one"] == 1
        print(f"rank {end.rank}: raised {end.event('raised')['time'] - given:.1f} s later, "
              f"usable {end.event('usable')['time'] - given:.1f} s later")


@pytest.mark.parametrize("phase", ["dense", "low_bit", "mixed"])
def test_a_killed_rank_is_named_and_devices_go_on(phase):
    check_story(*run_until(signal.SIGKILL, phase))


@pytest.mark.parametrize("phase", ["low_bit", "mixed"])
def test_a_stopped_rank_is_named_and_devices_go_on(phase):
    check_story(*run_until(signal.SIGSTOP, phase))
