"""However a script ends, its ranks end cleanly and soon: no crash, no hang, nothing left behind."""

import signal

import pytest
from workers.job import Job

CLEAN = ["close_and_destroy", "destroy_and_close", "destroy_alone", "nothing", "globals_are_left",
         "model_is_dropped", "fabric_is_dropped", "rank_0_is_late", "rank_0_is_first"]


@pytest.mark.parametrize("how", CLEAN)
def test_a_job_that_is_done_ends_well(how: str) -> None:
    with Job(2, "ends.py", how, "waterfill:4") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 0, end.errors


def test_an_error_of_the_script_is_all_that_is_seen() -> None:
    with Job(2, "ends.py", "raises", "waterfill:4") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 1
            assert end.errors.rstrip().endswith("ValueError: after training")


def test_a_refusal_is_all_that_is_seen() -> None:
    with Job(2, "ends.py", "is_refused", "none") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 1
            assert "codec 'waterfil' is unknown; did you mean 'waterfill'?" in end.errors


def test_nothing_of_a_meeting_is_held_when_it_is_over() -> None:
    with Job(2, "ends.py", "meets_often", "none") as job:
        for end in job.join():
            end.check_clean()
            assert end.event("met")["held"] == 0


@pytest.mark.parametrize("route", ["fp32", "waterfill:4"])
def test_ctrl_c_ends_all_ranks(route: str) -> None:
    with Job(2, "ends.py", "is_interrupted", route) as job:
        job.wait_for("ready")
        for rank in range(2):
            job.signal(rank, signal.SIGINT)
        for end in job.join():
            assert end.code in (-signal.SIGINT, 1), end.errors  # or its peer was gone before
            end.check_clean(by=signal.SIGINT)


def test_many_models_after_one_another_leave_nothing_behind() -> None:
    with Job(2, "ends.py", "attaches_often", "waterfill:4") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 0, end.errors
            assert end.event("grown")["threads"] <= 0
            assert end.event("grown")["kib"] < 10 * 256, "a quarter of a MiB a model"
