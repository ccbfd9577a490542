"""examples/torch/fsdp2.py trains sharded models, and continues from its checkpoint on another mesh."""

import json
from pathlib import Path

from examples_test import EXAMPLES, torchrun


def fsdp2(folder: Path, steps: int, *options: object) -> tuple[str, list[float]]:
    """The output of rank 0, and the losses of all steps so far."""
    output = torchrun("--nproc-per-node", 2, EXAMPLES / "fsdp2.py", "--layers", 1, "--width", 64, "--steps", steps,
                      "--checkpoint", folder / "checkpoint", "--result", folder / "result.json", *options)
    return output, json.loads((folder / "result.json").read_text())["losses"]


def test_training_continues_from_a_checkpoint_on_another_mesh(tmp_path: Path) -> None:
    output, first = fsdp2(tmp_path, 20)
    assert "ratio 0.13" in output
    _, losses = fsdp2(tmp_path, 40, "--replicas", 2)
    assert losses[:20] == first
    assert len(losses) == 40
    assert sum(losses[30:]) / 10 < sum(losses[10:20]) / 10 - 0.1
