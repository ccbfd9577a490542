"""On a GPU: if a rank dies or stops, the other ranks raise an error, and their devices stay usable."""

import re
import signal
import time

import pytest
import torch
from failure_test import CONFIGS, TIMEOUT
from workers.job import End, Job

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(),
                                reason="no CUDA device on this machine")


def run_until(number: signal.Signals, config: str) -> tuple[list[End], float]:
    """The ends of the other ranks of a job whose rank 1 gets the signal, and the time of the signal."""
    with Job(3, "train.py", "--device", "cuda", "--timeout", TIMEOUT, *CONFIGS[config]) as job:
        job.wait_for("ready")
        given = time.time()
        job.signal(1, number)
        ends = job.join([0, 2])
    if ends[0].event("ready")["place"] != "cuda":
        pytest.skip("the extension was built without CUDA")
    return ends, given


def was_ended_by_torch(end: End) -> bool:
    """The watchdog of DDP's own group, which sums dense values, may detect the loss as well. It then
    aborts the process after a minute, as it does under plain DDP."""
    return end.code == -signal.SIGABRT and "watchdog thread terminated with exception" in end.errors


def check_errors(ends: list[End], given: float) -> None:
    for end in ends:
        if not was_ended_by_torch(end):
            end.check_clean()
            assert end.code == 1, f"rank {end.rank}: exit code {end.code}\n{end.errors}"
        # The failure is detected in a bucket, or in the reduction of statistics at the end of a step.
        message = end.event("raised")["message"]
        assert re.match(rf"neuron_fabric: step \d+, (bucket \d+, )?rank {end.rank}: ", message), message
        assert re.search(r"\brank 1\b", message.split(": ", 2)[2]), message
        assert end.event("usable")["one"] == 1
        print(f"rank {end.rank}: raised {end.event('raised')['time'] - given:.1f} s later, "
              f"usable {end.event('usable')['time'] - given:.1f} s later")


@pytest.mark.parametrize("config", ["dense", "low_bit", "mixed"])
def test_a_killed_rank_is_named_and_devices_stay_usable(config):
    check_errors(*run_until(signal.SIGKILL, config))


@pytest.mark.parametrize("config", ["low_bit", "mixed"])
def test_a_stopped_rank_is_named_and_devices_stay_usable(config):
    check_errors(*run_until(signal.SIGSTOP, config))
