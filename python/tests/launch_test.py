"""launch() reports the first of several failures."""

import signal
from pathlib import Path

import pytest
from neuron_fabric.ranks import launch

# Rank 1 ends in one of several ways. If rank 1 reports a failure, rank 0 fails after that report; otherwise
# rank 0 does not notice in time.
RANKS = """
import os, signal, sys, time
from pathlib import Path
from neuron_fabric.ranks.launch import run_rank

ending, rank = sys.argv[1], int(os.environ["RANK"])
reported = Path(os.environ["NF_JOB_FOLDER"]) / "reported"

def work():
    if rank == 1 and ending == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if rank == 1 and ending == "exits":
        os._exit(7)
    while rank == 0 and not reported.exists():
        time.sleep(0.01)
    raise RuntimeError("rank 1 is gone" if rank == 0 else "no memory")

try:
    run_rank(work)
finally:
    reported.touch()
    if rank == 1 and ending == "aborts":
        os.kill(os.getpid(), signal.SIGABRT)
"""


@pytest.mark.parametrize(("ending", "words"), [
    ("fails", "rank 1: no memory; "),
    ("aborts", "rank 1: no memory; "),  # at exit, after it reported the reason
    ("dies", f"rank 1 was killed by {signal.SIGSEGV.name}; "),
    ("exits", "rank 1 exited with status 7; ")])
def test_the_first_failure_is_reported(ending: str, words: str, tmp_path: Path,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ranks_of_launch_test.py").write_text(RANKS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(launch.__file__).parents[2]}")
    with pytest.raises(launch.LaunchError) as caught:
        launch.launch("ranks_of_launch_test", [ending], 2, tmp_path / "out")
    assert str(caught.value).startswith(words)
