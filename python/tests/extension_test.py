"""The extension as a module: it loads, and its types match the stub."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch  # noqa: F401  must be loaded before the extension

import neuron_fabric
from neuron_fabric import _C


def public_names(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


def written_names(body: list[ast.stmt]) -> set[str]:
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {node.target.id for node in body if isinstance(node, ast.AnnAssign)}
    return {name for name in names if not name.startswith("_")}


def test_the_stub_lists_the_names_of_the_extension() -> None:
    types = ast.parse((Path(neuron_fabric.__file__).parent / "_C.pyi").read_text())
    assert written_names(types.body) == public_names(_C)
    for node in types.body:
        if isinstance(node, ast.ClassDef):
            assert written_names(node.body) == public_names(getattr(_C, node.name)), node.name


# Users need not import torch before they use a name of the package.
@pytest.mark.parametrize("name", ["__version__", "Profile"])
def test_the_package_can_be_imported_alone(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import neuron_fabric; neuron_fabric.{name}"],
                          check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_torch_is_not_loaded_until_it_is_needed() -> None:
    code = "import neuron_fabric.report, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_routes_with_memory_are_marked():
    for route in ("powersgd:2", "waterfill:2+ef", "g_binary+ef", "marsit+ef"):
        assert _C.remembers(route), route
    for route in ("fp32", "waterfill:4", "g_binary", "marsit"):
        assert not _C.remembers(route), route
    with pytest.raises(ValueError, match="waterfal"):
        _C.remembers("waterfal:4")
