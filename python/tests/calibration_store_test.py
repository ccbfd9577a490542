"""The files that a calibration saves to resume from, and the checks when it resumes."""

import json
import time
from pathlib import Path
from unittest import mock

import pytest
import torch.distributed as dist
from neuron_fabric.calibration.store import EVIDENCE, Store
from ranks import on_ranks
from small_calibration import OPTIONS, interrupted, make_calibrator, rejected


PARTS = ["checkpoint.rank0.pt.71.part", "checkpoint.rank1.pt.72.part", "checkpoint.rank11.pt.73.part",
         f"{EVIDENCE}.71.part", "mine.part"]


@pytest.mark.parametrize(("rank", "left"), [(0, PARTS[1:3] + PARTS[4:]), (1, [PARTS[0], *PARTS[2:]])])
@pytest.mark.parametrize("clean", [Store.clear, Store.sweep])
def test_partial_files_of_a_killed_rank_are_removed(tmp_path, rank, left, clean):
    for name in PARTS:
        (tmp_path / name).touch()
    clean(Store(tmp_path, rank))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(left)


def killed_in_a_save(folder: str) -> list[bool]:
    """Whether a partial file still exists after a job resumed, and after it started anew."""
    interrupted(folder, OPTIONS["dense_steps"] + 1)
    found = []
    for resume in (True, False):
        part = Path(folder) / f"checkpoint.rank{dist.get_rank()}.pt.1.part"
        part.touch()
        make_calibrator(out=folder, resume=resume)
        found.append(part.exists())
    return found


def test_resuming_removes_partial_files(tmp_path):
    assert on_ranks(2, killed_in_a_save, str(tmp_path)) == [[False, False]] * 2


def with_a_slow_disk(folder: str) -> list[bool]:
    """Whether rank 1 had its checkpoint each time rank 0 saved evidence."""
    save, save_checkpoint, there = Store.save, Store.save_checkpoint, []

    def recorded_save(store, *args):
        there.append((Path(folder) / "checkpoint.rank1.pt").exists())
        save(store, *args)

    def slow_save(store, *args):
        time.sleep(0.3 * dist.get_rank())
        save_checkpoint(store, *args)

    with mock.patch.object(Store, "save", recorded_save), \
            mock.patch.object(Store, "save_checkpoint", slow_save):
        interrupted(folder, OPTIONS["dense_steps"] + 1)
    return there


def test_evidence_is_saved_after_the_checkpoints_of_all_ranks(tmp_path):
    assert on_ranks(2, with_a_slow_disk, str(tmp_path))[0] == [True]


def with_a_full_disk(folder: str) -> str:
    def full(_store, *_):
        raise OSError("no space left")

    with mock.patch.object(Store, "save_checkpoint", full if dist.get_rank() else lambda *_: None), \
            pytest.raises((OSError, RuntimeError)) as error:
        interrupted(folder, OPTIONS["dense_steps"])
    return str(error.value)


def test_if_one_rank_cannot_save_its_checkpoint_all_ranks_raise(tmp_path):
    for message in on_ranks(2, with_a_full_disk, str(tmp_path)):
        assert "no space left" in message


@pytest.mark.parametrize(("fact", "words"), [
    ("device", "another device (cuda, now cpu)"), ("torch", "another torch (cuda, now ")])
def test_evidence_of_another_device_or_version_is_rejected(tmp_path, fact, words):
    on_ranks(2, interrupted, str(tmp_path), OPTIONS["dense_steps"] + 1)
    kept = json.loads((tmp_path / EVIDENCE).read_text())
    kept["job"][fact] = "cuda"
    (tmp_path / EVIDENCE).write_text(json.dumps(kept))
    assert words in on_ranks(2, rejected, str(tmp_path))[0]
