"""A rank that ends after its last step is missed by nobody who is still busy with that step."""

from workers.job import Job


def test_a_rank_that_has_ended_is_not_missed_in_its_last_step() -> None:
    with Job(2, "goodbye.py", "late") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 0, end.errors


def test_a_rank_that_has_ended_is_named_in_the_next_step() -> None:
    with Job(2, "goodbye.py", "one_more") as job:
        ends = job.join()
    assert ends[1].code == 0, ends[1].errors
    assert "rank 1 is gone: it has ended after 5 steps" in ends[0].event("raised")["message"]
