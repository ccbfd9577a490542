"""The front loads without the lab, and modules that moved to the lab are still found."""

import importlib
import subprocess
import sys
from pathlib import Path

import neuron_fabric as nf
import pytest


def test_the_front_does_not_load_the_lab():
    code = ("import sys, neuron_fabric as nf\n"
            "for name in nf.__all__: getattr(nf, name)\n"
            "sys.exit(any(name.startswith('neuron_fabric_lab') for name in sys.modules))")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])


@pytest.mark.parametrize("name", ["calibrate", "compare", "demo", "train", "workloads"])
def test_a_module_that_moved_to_the_lab_is_found_with_a_warning(name):
    with pytest.warns(DeprecationWarning, match=f"neuron_fabric.{name} is now neuron_fabric_lab.{name}"):
        found = getattr(nf, name)
    assert found is importlib.import_module(f"neuron_fabric_lab.{name}")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        nf.nothing  # noqa: B018
