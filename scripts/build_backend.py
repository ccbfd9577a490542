"""The build backend of pyproject.toml: scikit-build-core, which also requires PyTorch if needed.

An extension only works with the PyTorch version that it was built with. An isolated build therefore
uses the installed PyTorch (cmake/FindTorchPython.cmake finds it). If none is installed, the build
requires PyTorch; pip then installs the same version with the package, as its dependency.
"""

import subprocess
import sys
from typing import Any

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403  the unchanged hooks

TORCH = "torch>=2.11"
# -E ignores the PYTHONPATH of an isolated build.
HAS_TORCH = [sys.executable, "-E", "-c", "import importlib.util as u, sys; "
             "sys.exit(u.find_spec('torch') is None)"]

Settings = dict[str, Any] | None


def missing_torch() -> list[str]:
    return [TORCH] if subprocess.run(HAS_TORCH, check=False).returncode else []


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return [*build.get_requires_for_build_wheel(config_settings), *missing_torch()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return [*build.get_requires_for_build_editable(config_settings), *missing_torch()]
