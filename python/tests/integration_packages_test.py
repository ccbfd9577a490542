"""Integrations whose framework is not installed name the package to install."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["accelerate", "lightning", "transformers"])
def test_a_missing_package_is_named(package):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{package!r}] = None\n"
                               f"import neuron_fabric.integrations.{package}"],
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert (f"neuron_fabric.integrations.{package} needs the package {package}, which is not "
            f"installed: pip install {package}") in done.stderr
