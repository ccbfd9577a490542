"""Commands do not touch other runs and files of other programs in the folder of --out."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from compared_runs import run
from neuron_fabric.ranks import launch
from neuron_fabric_lab import demo
from neuron_fabric_lab.compare.__main__ import main as compare_main
from neuron_fabric_lab.compare.jobs import make_jobs
from neuron_fabric_lab.train.__main__ import main as train_main
from neuron_fabric_lab.train.checkpoint import Checkpoint, OtherRun
from neuron_fabric_lab.train.options import parse
from neuron_fabric_lab.train.result import is_finished, write_result
from ranks import on_ranks

pytestmark = pytest.mark.skipif(importlib.util.find_spec("neuron_fabric._C") is None,
                                reason="the extension neuron_fabric._C is not built")
WORDS = ["hostile", "--ranks", "1", "--steps", "10", "--route", "plain"]


def keep(folder, arguments):
    """Saves a finished run with these options."""
    folder.mkdir(parents=True)
    identity = parse(list(arguments), ["hostile"]).identity()
    write_result(folder, run("plain", 1, 0.9, options=identity))


@pytest.mark.parametrize(("other", "named"), [
    (["--seed", "2"], "seed"), (["--steps", "20"], "steps"), (["--route", "plain_bf16", "--batch", "4"],
                                                             "route and batch")])
def test_a_finished_run_is_not_overwritten_by_another(tmp_path, capsys, other, named):
    out = tmp_path / "out"
    keep(out, WORDS)
    before = (out / "result.json").read_bytes()
    assert train_main([*WORDS, *other, "--out", str(out)]) == 1
    assert capsys.readouterr().err == (f"nf train: {out} has a run with another {named}; remove the folder, "
                                       "or use another --out\n")
    assert (out / "result.json").read_bytes() == before


def test_a_comparison_does_not_overwrite_another(tmp_path, capsys):
    for job in make_jobs(tmp_path, ["plain", "plain_bf16"], 1, WORDS[:5]):
        keep(job.out, job.arguments)
    words = [*WORDS[:5], "--routes", "plain,plain_bf16", "--seeds", "1", "--out", str(tmp_path)]
    before = (tmp_path / "plain-seed1" / "result.json").read_bytes()
    assert compare_main([*words, "--steps", "20"]) == 1
    assert f"nf compare: {tmp_path / 'plain-seed1'} has a run with another steps" in capsys.readouterr().err
    assert (tmp_path / "plain-seed1" / "result.json").read_bytes() == before
    assert compare_main([*words, "--table"]) == 0


def test_an_option_missing_from_an_old_result_has_its_default():
    identity = parse(WORDS, ["hostile"]).identity()
    older = {key: value for key, value in identity.items() if key != "breach_at"}
    assert is_finished({"finished": True, "options": older}, identity)
    assert not is_finished({"finished": True, "options": older | {"breach_at": 3}}, identity)
    assert not is_finished({"finished": True}, identity)


def save_and_remove(out: Path) -> None:
    checkpoint = Checkpoint(out, {"seed": 1})
    checkpoint.save(5, {})
    checkpoint.remove()


def test_a_run_removes_only_its_own_state(tmp_path):
    on_ranks(1, save_and_remove, tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "mine").touch()
    on_ranks(1, save_and_remove, tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["state", "mine"]


def save_in_own_folder(out: Path, step: int) -> None:
    """Each rank has its own folder, so only rank 0 gets the file that rank 0 writes."""
    Checkpoint(out / str(dist.get_rank()), {"seed": 1}).save(step, {"step": step})


def resume(out: Path, seed: int = 1) -> str:
    try:
        state = Checkpoint(out, {"seed": seed}).load(torch.device("cpu"))
    except OtherRun as error:
        return str(error)
    return f"resumes from {state['step']}" if state else "begins"


def resume_in_own_folder(out: Path, seed: int = 1) -> str:
    return resume(out / str(dist.get_rank()), seed)


def save_together(out: Path, step: int) -> None:
    Checkpoint(out, {"seed": 1}).save(step, {"step": step})


def test_all_ranks_resume_from_the_same_step_or_fail(tmp_path):
    assert on_ranks(2, resume, tmp_path / "none") == ["begins"] * 2
    on_ranks(2, save_together, tmp_path / "shared", 5)
    assert on_ranks(2, resume, tmp_path / "shared") == ["resumes from 5"] * 2
    (tmp_path / "shared" / "state" / "rank1.5.pt").unlink()
    assert "(rank 0: 5, rank 1: 0): use an --out" in on_ranks(2, resume, tmp_path / "shared")[0]

    on_ranks(2, save_in_own_folder, tmp_path, 5)
    for message in on_ranks(2, resume_in_own_folder, tmp_path):
        assert message.endswith("(rank 0: 5, rank 1: 0): use an --out that all hosts share, or remove the "
                                "folder on each")


def test_a_run_rejected_by_one_rank_is_rejected_by_all(tmp_path):
    on_ranks(2, save_in_own_folder, tmp_path, 5)
    messages = on_ranks(2, resume_in_own_folder, tmp_path, 2)
    assert messages == [f"{tmp_path / '0'} has a run with another seed; remove the folder, or use "
                        "another --out"] * 2


def test_folders_of_other_programs_are_kept(tmp_path):
    """For example, if `nf demo --out .` runs next to TensorBoard's folders."""
    for name in ("runs/safe", "log"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("runs/safe/events", "log/mine", "results.json", "failures.jsonl"):
        (tmp_path / name).write_text(json.dumps({}))
    before = sorted(tmp_path.rglob("*"))
    demo.prepare(tmp_path)
    launch._clear(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
