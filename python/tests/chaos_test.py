"""`make chaos`: plans follow from their seed, what must hold is checked, and two episodes hold."""

import json
from pathlib import Path

import pytest
from chaos import leaks
from chaos.__main__ import read, row_of, summary
from chaos.episode import Finding, Outcome, Runner, check_digests, check_survivors
from chaos.plan import EVENTS, ROUTES, SOURCES, Episode, Job, plan
from workers.job import End


def test_a_plan_is_a_function_of_its_seed():
    plans = [plan(seed) for seed in range(400)]
    assert plans == [plan(seed) for seed in range(400)]
    assert {one.event for one in plans} == set(EVENTS)
    assert {one.job.source for one in plans} == set(SOURCES)
    assert {one.job.route for one in plans} == set(ROUTES)
    assert {one.moment for one in plans} == {"start", "training"}
    for one in plans:
        assert set(one.victims) < set(range(one.job.ranks))
        assert len(one.victims) == (2 if one.event == "kill_two" else 1)
        assert set(one.survivors) | set(one.victims) == set(range(one.job.ranks))


EPISODE = Episode(1, Job("ddp", 3, "waterfill:4"), "kill", (1,), "training", 0.1)


@pytest.mark.parametrize("episode", [
    EPISODE, Episode(2, Job("replicate", 2, "waterfill:3+ef"), "pause", (1,), "training", 0.2)], ids=str)
def test_an_episode_holds(episode):
    outcome = Runner(is_alone=False).run(episode)
    assert outcome.findings == []
    assert outcome.went_on == (episode.event == "pause")
    assert outcome.seconds > 0
    assert (outcome.resumed_at > 0) == (episode.event == "kill")


def ended(rank: int, code: int = 1, errors: str = "", **event: object) -> End:
    name = "end" if "digest" in event else "raised"
    return End(rank, code, [{"event": name} | event], errors)


NAMED = ended(0, message="neuron_fabric: step 3, bucket 0, rank 0: rank 1 is gone")


@pytest.mark.parametrize(("end", "finding"), [
    (ended(2, message="neuron_fabric: step 3, bucket 0, rank 2: rank 0 is gone"), "rank 2 does not name the cause"),
    (ended(2, code=0, digest="aa"), "rank 2 ended with 0"),
    (ended(2, code=-11, message=""), "was killed by signal 11"),
    (ended(2, errors="terminate called without", message="rank 1 is gone"), "terminate called")])
def test_wrong_ends_are_found(end, finding):
    check_survivors(EPISODE, [NAMED, ended(2, message=NAMED.events[0]["message"])])
    with pytest.raises((Finding, AssertionError), match=finding):
        check_survivors(EPISODE, [NAMED, end])


def test_other_bits_are_found():
    check_digests([ended(0, code=0, digest="aa"), ended(1, code=0, digest="bb")], ["aa", "bb"])
    with pytest.raises(Finding, match="not \\['aa', 'bb'\\]"):
        check_digests([ended(0, code=0, digest="aa"), ended(1, code=0, digest="bc")], ["aa", "bb"])
    with pytest.raises(Finding, match="rank 1 ended with 1"):
        check_digests([ended(0, code=0, digest="aa"), ended(1, message="no")], ["aa", "bb"])


def test_files_that_are_left_behind_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(leaks, "PLACES", [(tmp_path, "nf-")])
    before = leaks.snapshot()
    (tmp_path / "nf-job").touch()
    (tmp_path / "other").touch()
    assert leaks.snapshot() - before == {str(tmp_path / "nf-job")}


def test_findings_are_kept_with_their_seeds(tmp_path: Path):
    good, bad = Outcome(EPISODE, resumed_at=7, seconds=1800), Outcome(plan(4711), ["ranks [1] hang"])
    file = tmp_path / "episodes.jsonl"
    file.write_text("".join(json.dumps(row_of(one)) + "\n" for one in (good, bad)))
    text = summary(read(file))
    assert "2 episodes in 0.50 h" in text
    assert text.endswith("findings: 1, in the episodes with seeds 4711")
    assert summary([row_of(good)]).endswith("1 x kill; 1 ranks killed\nfindings: none")
