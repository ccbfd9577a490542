"""A rank that exits after its last step is no failure for ranks that still run that step."""

from workers.job import Job


def test_a_rank_that_exits_after_its_last_step_is_no_failure() -> None:
    with Job(2, "shutdown_notice.py", "late") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 0, end.errors


def test_a_rank_that_exited_is_named_in_the_next_step() -> None:
    with Job(2, "shutdown_notice.py", "one_more") as job:
        ends = job.join()
    assert ends[1].code == 0, ends[1].errors
    assert "rank 1 is gone: it has ended after 5 steps" in ends[0].event("raised")["message"]
