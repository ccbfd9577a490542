"""launch(): which of several failures it tells."""

import signal
from pathlib import Path

import pytest
from neuron_fabric.ranks import launch

# Rank 1 ends somehow. Rank 0 notices where it fails, after it has told so, and else not in time.
RANKS = """
import os, signal, sys, time
from pathlib import Path
from neuron_fabric.ranks.launch import run_rank

how, rank = sys.argv[1], int(os.environ["RANK"])
told = Path(os.environ["NF_JOB_FOLDER"]) / "told"

def work():
    if rank == 1 and how == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if rank == 1 and how == "exits":
        os._exit(7)
    while rank == 0 and not told.exists():
        time.sleep(0.01)
    raise RuntimeError("rank 1 is gone" if rank == 0 else "no memory")

try:
    run_rank(work)
finally:
    told.touch()
    if rank == 1 and how == "aborts":
        os.kill(os.getpid(), signal.SIGABRT)
"""


@pytest.mark.parametrize(("how", "words"), [
    ("fails", "rank 1: no memory; "),
    ("aborts", "rank 1: no memory; "),  # at its end, after it had told why
    ("dies", f"rank 1 was killed by {signal.SIGSEGV.name}; "),
    ("exits", "rank 1 exited with status 7; ")])
def test_the_first_failure_is_told(how: str, words: str, tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ranks_of_launch_test.py").write_text(RANKS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(launch.__file__).parents[2]}")
    with pytest.raises(launch.LaunchError) as caught:
        launch.launch("ranks_of_launch_test", [how], 2, tmp_path / "out")
    assert str(caught.value).startswith(words)
