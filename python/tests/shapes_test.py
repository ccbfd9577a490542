"""write_shapes() writes the file that `nf plan --shapes` reads, with the parameters that attach() sees."""

import json
import os
import subprocess
import sys
from pathlib import Path

import neuron_fabric as nf
import pytest
import torch
from neuron_fabric import shapes
from ranks import on_ranks
from small_job import Classifier, make, wrap
from torch import nn

ROOT = Path(__file__).parents[2]
NF = ROOT / "build/release/tools/nf/nf"


class Tied(nn.Module):
    """Shared, frozen and scalar parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.frozen = nn.Linear(16, 16).requires_grad_(False)
        self.norm = nn.LayerNorm(16)
        self.scale = nn.Parameter(torch.ones(()))
        self.head = nn.Linear(16, 100, bias=False)
        self.head.weight = self.embed.weight


def plan(path: Path) -> list[dict]:
    """One line per parameter."""
    done = subprocess.run([NF, "plan", "--shapes", path, "--explain", "--json"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_names_shapes_and_module_types_are_those_of_the_model(tmp_path):
    nf.write_shapes(Tied(), tmp_path / "tied.json")
    assert json.loads((tmp_path / "tied.json").read_text()) == {
        "name": "Tied",
        "parameters": [
            {"name": "scale", "shape": [], "module_type": "Tied"},
            {"name": "embed.weight", "shape": [100, 16], "module_type": "Embedding"},
            {"name": "norm.weight", "shape": [16], "module_type": "LayerNorm"},
            {"name": "norm.bias", "shape": [16], "module_type": "LayerNorm"},
        ],
    }


def test_a_model_without_gradients_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="Linear has no parameter with a gradient"):
        nf.write_shapes(nn.Linear(2, 2).requires_grad_(False), tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()


def names_of_attach(path: Path) -> list[str]:
    ddp = wrap(make())
    nf.write_shapes(ddp, path / f"{torch.distributed.get_rank()}.json", name="small")
    with torch.no_grad():
        fabric = nf.attach(ddp, route="waterfill:4")
    names = fabric._session.parameters.names
    fabric.close()
    return names


def test_a_wrapped_model_has_the_names_that_attach_gives_it(tmp_path):
    names = on_ranks(2, names_of_attach, tmp_path)[0]
    written = json.loads((tmp_path / "0.json").read_text())["parameters"]
    assert [parameter["name"] for parameter in written] == names
    assert "second.weight" in names


def test_nf_plan_names_every_parameter(tmp_path):
    model = Classifier()
    nf.write_shapes(model, tmp_path / "small.json", name="small")
    lines = plan(tmp_path / "small.json")
    assert {line["parameter"]: line["length"] for line in lines} == {
        name: parameter.numel() for name, parameter in model.named_parameters()}
    assert {line["parameter"]: line["why"] for line in lines}["norm.weight"].startswith("module type")


def run_shapes(*arguments: str, folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "neuron_fabric.shapes", *arguments], cwd=folder,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
                          capture_output=True, text=True, timeout=120, check=False)


def test_the_command_writes_the_model_that_a_factory_makes(tmp_path):
    (tmp_path / "models.py").write_text(
        "from torch import nn\ndef huge(): return nn.Linear(1 << 18, 1 << 18, bias=False)\n")
    done = run_shapes("models:huge", "-o", "huge.json", "--name", "huge", folder=tmp_path)
    assert done.returncode == 0, done.stderr  # 256 GiB: no memory is allocated
    assert json.loads((tmp_path / "huge.json").read_text()) == {
        "name": "huge",
        "parameters": [{"name": "weight", "shape": [1 << 18, 1 << 18], "module_type": "Linear"}]}


@pytest.mark.parametrize(("factory", "words"), [
    ("models", "write it as MODULE:FACTORY, such as my_models:make_gpt"),
    ("no_such_module:make", "No module named 'no_such_module'"),
    ("torch.nn:NoSuchLayer", "has no attribute 'NoSuchLayer'"),
    ("torch.nn:Linear", "missing 2 required positional arguments"),
    ("builtins:list", "it returned a list, not a torch.nn.Module"),
])
def test_a_factory_that_returns_no_model_is_named(capsys, factory, words):
    assert shapes.main([factory]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"shapes: {factory}: ") and words in printed.err
