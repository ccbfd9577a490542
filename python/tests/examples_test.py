"""The examples run as their first lines say, and a job that loses a rank goes on where it was."""

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"


def torchrun(*arguments: object, **environment: str) -> str:
    """What four ranks print."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        | environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def losses(output: str) -> dict[int, float]:
    return {int(step): float(loss)
            for step, loss in re.findall(r"^step +(\d+)  loss (\S+)", output, re.M)}


def bits(checkpoint: Path) -> list[bytes]:
    """Of the weights and of what error feedback keeps."""
    held = torch.load(checkpoint)
    tensors = [*held["model"].values(), *(item["values"] for item in held["fabric"]["memory"])]
    return [tensor.numpy().tobytes() for tensor in tensors]


def test_a_job_that_torchrun_restarts_ends_as_one_that_was_never_killed(tmp_path: Path) -> None:
    ranks = ["--nproc-per-node", 3, "--max-restarts", 1, EXAMPLES / "resume.py"]
    undisturbed = torchrun(*ranks, tmp_path / "a")
    restarted = torchrun(*ranks, tmp_path / "b", FAIL_AT="30")
    assert "resumes at step" not in undisturbed
    assert "resumes at step 20" in restarted
    assert sorted(losses(undisturbed)) == [20, 40, 60]
    assert losses(restarted) == losses(undisturbed)
    for file in ["step40/rank0.pt", "step60/rank0.pt", "step60/rank2.pt"]:
        assert len(bits(tmp_path / "a" / file)) == 8  # four parameters and their residuals
        assert bits(tmp_path / "b" / file) == bits(tmp_path / "a" / file)


def test_the_two_lines_are_all_it_takes() -> None:
    assert "waterfill" in torchrun("--nproc-per-node", 2, EXAMPLES / "train_ddp.py", STEPS="40")


def test_a_model_is_calibrated_and_trained_with_its_profile(tmp_path: Path) -> None:
    command = ["--nproc-per-node", 2, EXAMPLES / "calibrate.py", tmp_path / "profile.json"]
    told = torchrun(*command, STEPS="64")
    chosen = re.search(r"backbone=([^,\s]+), .*the rest dense", told)
    assert chosen, told
    trained = torchrun(*command, "--train", STEPS="40")
    assert re.search(rf"^backbone +\S+ +{re.escape(chosen[1])} +admitted ", trained, re.M), trained
