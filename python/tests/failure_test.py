"""If a rank dies, stops or fails, the other ranks soon raise an error that names it."""

import json
import random
import re
import signal
import time

import pytest
from workers.job import End, Job

# Low-bit matrices and dense biases in one bucket.
MIXED = json.dumps({
    "format": "neuron_fabric.profile", "version": 1, "name": "mixed", "smallest_parameter": 0,
    "regions": [{"name": "weights", "names": ["*.weight"]}, {"name": "rest"}],
    "phases": [{"from_step": 0, "routes": {"weights": "waterfill:4", "rest": "fp32"}}],
    "health": {"warm_up_steps": 0}})

TIMEOUT = "7"  # seconds per step; also enough for the rendezvous and attach() on a loaded machine

CONFIGS = {
    "dense": ["--route", "fp32"],
    "warm_up": [],
    "low_bit": ["--route", "waterfill:4"],
    "mixed": ["--profile", MIXED],
}

ERROR = re.compile(r"neuron_fabric: step (?P<step>\d+), bucket (?P<bucket>\d+), "
                   r"rank (?P<rank>\d+): (?P<reason>.*?)"
                   r"(?:; first seen at (?P<first>.*))?\Z", re.DOTALL)


def error_of(end: End) -> re.Match:
    """The error of a rank that aborted."""
    end.check_clean()
    assert end.code == 1, f"rank {end.rank}: exit code {end.code}\n{end.errors}"
    raised = end.event("raised")
    error = ERROR.match(raised["message"])
    assert error, raised["message"]
    assert int(error["rank"]) == end.rank
    assert int(error["step"]) == raised["step"]
    return error


def check_errors(ends: list[End], victim: int) -> None:
    """All errors name the victim and the rank that detected its failure first."""
    errors = [error_of(end) for end in ends]
    first_errors = {error["first"] or error.group().removeprefix("neuron_fabric: ")
                    for error in errors}
    if victim != 0:  # rank 0 has the store
        assert len(first_errors) == 1, first_errors
        for error in errors:
            assert f"rank {victim} is gone" in (error["first"] or error["reason"]), error.group()
    else:
        assert any(f"rank {victim} is gone" in error["reason"] for error in errors), first_errors


@pytest.mark.parametrize(("ranks", "victim", "config"), [
    *((3, 1, config) for config in CONFIGS), (3, 0, "dense"), (3, 0, "low_bit"), (4, 3, "mixed")])
def test_a_killed_rank_is_named_on_all_others(ranks, victim, config):
    moments = random.Random(f"{ranks} {victim} {config}")
    others = [rank for rank in range(ranks) if rank != victim]
    with Job(ranks, "train.py", *CONFIGS[config]) as job:
        job.wait_for("ready")
        time.sleep(moments.uniform(0, 0.3))  # at a random point of a step
        killed = time.time()
        job.signal(victim, signal.SIGKILL)
        ends = job.join(others)
    check_errors(ends, victim)
    for end in ends:
        print(f"rank {end.rank}: {end.event('raised')['time'] - killed:.2f} s")


@pytest.mark.parametrize(("victim", "config"), [
    (1, "dense"), (1, "low_bit"), (0, "dense"), (0, "low_bit")])
def test_a_stopped_rank_is_named_at_the_deadline(victim, config):
    others = [rank for rank in range(3) if rank != victim]
    with Job(3, "train.py", "--timeout", TIMEOUT, *CONFIGS[config]) as job:
        job.wait_for("ready")
        job.signal(victim, signal.SIGSTOP)
        ends = job.join(others)
    for end in ends:
        error = error_of(end)
        if victim != 0 or config == "low_bit":
            assert f"rank {victim}" in (error["first"] or error["reason"]), error.group()
        else:  # rank 0 has the store
            assert "the job's store does not answer" in error["reason"] or \
                   "rank 0" in error["reason"], error.group()


def test_the_timeout_of_the_process_group_is_the_deadline():
    with Job(3, "train.py", "--group-timeout", TIMEOUT, "--route", "fp32") as job:
        job.wait_for("ready")
        job.signal(1, signal.SIGSTOP)
        for end in job.join([0, 2]):
            error = error_of(end)
            assert "rank 1" in (error["first"] or error["reason"]), error.group()


def test_a_store_that_was_unresponsive_is_polled_again():
    with Job(3, "train.py", *CONFIGS["dense"]) as job:
        job.wait_for("ready")
        job.signal(0, signal.SIGSTOP)  # rank 0 has the store
        time.sleep(3)
        job.signal(0, signal.SIGCONT)
        time.sleep(3)  # training continues
        job.signal(1, signal.SIGKILL)
        check_errors(job.join([0, 2]), 1)


@pytest.mark.parametrize("config", ["dense", "low_bit"])
def test_a_late_rank_is_not_named(config):
    # Rank 2 reports itself at half of its own deadline, about when rank 0's expires; rank 0 waits one
    # second more.
    with Job(3, "train.py", "--timeout", TIMEOUT, "--stops", "--late", "3.4",
             *CONFIGS[config]) as job:
        for end in job.join([0, 2]):
            error = error_of(end)
            assert "rank 1" in (error["first"] or error["reason"]), error.group()
            assert "ranks" not in error.group()


@pytest.mark.parametrize(("where", "config"), [("forward", "dense"), ("backward", "low_bit")])
def test_no_rank_waits_for_a_rank_whose_code_failed(where, config):
    with Job(3, "train.py", "--throws", where, *CONFIGS[config]) as job:
        ends = job.join()
    ends[1].check_clean()
    assert ends[1].code == 1
    assert "KeyError: 'no such sample'" in ends[1].errors
    check_errors([ends[0], ends[2]], 1)
