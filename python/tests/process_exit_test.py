"""However a script ends, its ranks exit cleanly: no crash, no hang, no leak."""

import signal

import pytest
from workers.job import Job

CLEAN = ["close_and_destroy", "destroy_and_close", "destroy_alone", "nothing", "globals_are_left",
         "model_is_dropped", "fabric_is_dropped", "rank_0_is_late", "rank_0_is_first"]


@pytest.mark.parametrize("ending", CLEAN)
def test_a_finished_job_exits_cleanly(ending: str) -> None:
    with Job(2, "process_exit.py", ending, "waterfill:4") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 0, end.errors


def test_an_error_of_the_script_is_the_only_error_printed() -> None:
    with Job(2, "process_exit.py", "raises", "waterfill:4") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 1
            assert end.errors.rstrip().endswith("ValueError: after training")


def test_an_error_of_attach_is_the_only_error_printed() -> None:
    with Job(2, "process_exit.py", "is_rejected", "none") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 1
            assert "codec 'waterfil' is unknown; did you mean 'waterfill'?" in end.errors


def test_no_tensor_is_held_after_a_rendezvous() -> None:
    with Job(2, "process_exit.py", "gathers_often", "none") as job:
        for end in job.join():
            end.check_clean()
            assert end.event("gathered")["held"] == 0


@pytest.mark.parametrize("route", ["fp32", "waterfill:4"])
def test_ctrl_c_ends_all_ranks(route: str) -> None:
    with Job(2, "process_exit.py", "is_interrupted", route) as job:
        job.wait_for("ready")
        for rank in range(2):
            job.signal(rank, signal.SIGINT)
        for end in job.join():
            assert end.code in (-signal.SIGINT, 1), end.errors  # 1 if its peer exited first
            end.check_clean(by=signal.SIGINT)


def test_attaching_many_models_in_turn_leaks_no_threads_or_memory() -> None:
    with Job(2, "process_exit.py", "attaches_often", "waterfill:4") as job:
        for end in job.join():
            end.check_clean()
            assert end.code == 0, end.errors
            assert end.event("grown")["threads"] <= 0
            assert end.event("grown")["kib"] < 10 * 256, "more than 256 KiB per model"
