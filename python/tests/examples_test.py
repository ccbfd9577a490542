"""The examples run with the commands in their docstrings, and a job that loses a rank resumes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import forked_python
import torch

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"


def torchrun(*arguments: object, is_forked: bool = True, **environment: str) -> str:
    """The output of all ranks."""
    python = forked_python.executable() if is_forked else sys.executable
    done = subprocess.run(
        [python, "-m", "torch.distributed.run", "--standalone", *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
                          "PYTHON_EXEC": python} | environment,
        capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def losses(output: str) -> dict[int, float]:
    return {int(step): float(loss)
            for step, loss in re.findall(r"^step +(\d+)  loss (\S+)", output, re.M)}


def bits(checkpoint: Path) -> list[bytes]:
    """The bits of the weights and of the residuals."""
    held = torch.load(checkpoint)
    tensors = [*held["model"].values(), *(item["values"] for item in held["fabric"]["memory"])]
    return [tensor.numpy().tobytes() for tensor in tensors]


def test_a_job_restarted_by_torchrun_has_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
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


def test_the_two_line_example_runs() -> None:
    """As users start it, with new interpreters."""
    output = torchrun("--nproc-per-node", 2, EXAMPLES / "train_ddp.py", is_forked=False, STEPS="40")
    assert "waterfill" in output


def test_a_model_is_calibrated_and_trained_with_its_profile(tmp_path: Path) -> None:
    command = ["--nproc-per-node", 2, EXAMPLES / "calibrate.py", tmp_path / "profile.json"]
    output = torchrun(*command, STEPS="64")
    chosen = re.search(r"backbone=([^,\s]+), .*the rest dense", output)
    assert chosen, output
    trained = torchrun(*command, "--train", STEPS="40")
    assert re.search(rf"^backbone +\S+ +{re.escape(chosen[1])} +admitted ", trained, re.M), trained
