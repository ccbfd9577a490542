"""What the other ranks see when one dies, stops or fails: an error that names it, and soon."""

import json
import random
import re
import signal
import time

import pytest
from workers.job import End, Job

# Some matrices travel at low bits, the others and the biases dense, in one bucket.
MIXED = json.dumps({
    "format": "neuron_fabric.profile", "version": 1, "name": "mixed", "smallest_parameter": 0,
    "regions": [{"name": "weights", "names": ["*.weight"]}, {"name": "rest"}],
    "phases": [{"from_step": 0, "routes": {"weights": "waterfill:4", "rest": "fp32"}}],
    "health": {"warm_up_steps": 0}})

TIMEOUT = "7"  # of a step; ranks meet and attach within it, too, on a loaded machine

PHASES = {
    "dense": ["--route", "fp32"],
    "warm_up": [],
    "low_bit": ["--route", "waterfill:4"],
    "mixed": ["--profile", MIXED],
}

ERROR = re.compile(r"neuron_fabric: step (?P<step>\d+), bucket (?P<bucket>\d+), "
                   r"rank (?P<rank>\d+): (?P<reason>.*?)"
                   r"(?:; first seen at (?P<first>.*))?\Z", re.DOTALL)


def error_of(end: End) -> re.Match:
    """Of a rank that had to give up."""
    end.check_clean()
    assert end.code == 1, f"rank {end.rank}: exit code {end.code}\n{end.errors}"
    raised = end.event("raised")
    error = ERROR.match(raised["message"])
    assert error, raised["message"]
    assert int(error["rank"]) == end.rank
    assert int(error["step"]) == raised["step"]
    return error


def check_story(ends: list[End], victim: int) -> None:
    """All tell of the victim, and of who saw it first."""
    errors = [error_of(end) for end in ends]
    first_words = {error["first"] or error.group().removeprefix("neuron_fabric: ")
                   for error in errors}
    if victim != 0:  # which has the store
        assert len(first_words) == 1, first_words
        for error in errors:
            assert f"rank {victim} is gone" in (error["first"] or error["reason"]), error.group()
    else:
        assert any(f"rank {victim} is gone" in error["reason"] for error in errors), first_words


@pytest.mark.parametrize(("ranks", "victim", "phase"), [
    *((3, 1, phase) for phase in PHASES), (3, 0, "dense"), (3, 0, "low_bit"), (4, 3, "mixed")])
def test_a_killed_rank_is_named_on_all_others(ranks, victim, phase):
    moments = random.Random(f"{ranks} {victim} {phase}")
    others = [rank for rank in range(ranks) if rank != victim]
    with Job(ranks, "train.py", *PHASES[phase]) as job:
        job.wait_for("ready")
        time.sleep(moments.uniform(0, 0.3))  # somewhere in a step
        killed = time.time()
        job.signal(victim, signal.SIGKILL)
        ends = job.join(others)
    check_story(ends, victim)
    for end in ends:
        print(f"rank {end.rank}: {end.event('raised')['time'] - killed:.2f} s")


@pytest.mark.parametrize(("victim", "phase"), [
    (1, "dense"), (1, "low_bit"), (0, "dense"), (0, "low_bit")])
def test_a_rank_that_stops_is_named_at_the_deadline(victim, phase):
    others = [rank for rank in range(3) if rank != victim]
    with Job(3, "train.py", "--timeout", TIMEOUT, *PHASES[phase]) as job:
        job.wait_for("ready")
        job.signal(victim, signal.SIGSTOP)
        ends = job.join(others)
    for end in ends:
        error = error_of(end)
        if victim != 0 or phase == "low_bit":
            assert f"rank {victim}" in (error["first"] or error["reason"]), error.group()
        else:  # which has the store
            assert "the job's store does not answer" in error["reason"] or \
                   "rank 0" in error["reason"], error.group()


def test_the_timeout_of_the_process_group_is_the_deadline():
    with Job(3, "train.py", "--group-timeout", TIMEOUT, "--route", "fp32") as job:
        job.wait_for("ready")
        job.signal(1, signal.SIGSTOP)
        for end in job.join([0, 2]):
            error = error_of(end)
            assert "rank 1" in (error["first"] or error["reason"]), error.group()


def test_a_store_that_did_not_answer_for_a_while_is_asked_again():
    with Job(3, "train.py", *PHASES["dense"]) as job:
        job.wait_for("ready")
        job.signal(0, signal.SIGSTOP)  # which has the store
        time.sleep(3)
        job.signal(0, signal.SIGCONT)
        time.sleep(3)  # training goes on
        job.signal(1, signal.SIGKILL)
        check_story(job.join([0, 2]), 1)


@pytest.mark.parametrize("phase", ["dense", "low_bit"])
def test_a_rank_that_is_only_late_is_not_named(phase):
    # Rank 2 signs at half of its own deadline, which is about rank 0's; that one waits a second.
    with Job(3, "train.py", "--timeout", TIMEOUT, "--stops", "--late", "3.4",
             *PHASES[phase]) as job:
        for end in job.join([0, 2]):
            error = error_of(end)
            assert "rank 1" in (error["first"] or error["reason"]), error.group()
            assert "ranks" not in error.group()


@pytest.mark.parametrize(("where", "phase"), [("forward", "dense"), ("backward", "low_bit")])
def test_nobody_waits_for_a_rank_whose_own_code_has_failed(where, phase):
    with Job(3, "train.py", "--throws", where, *PHASES[phase]) as job:
        ends = job.join()
    ends[1].check_clean()
    assert ends[1].code == 1
    assert "KeyError: 'no such sample'" in ends[1].errors
    check_story([ends[0], ends[2]], 1)
