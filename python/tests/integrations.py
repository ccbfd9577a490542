"""Helpers of the integration tests."""

import os
import subprocess
import sys
from pathlib import Path

import forked_python
import neuron_fabric as nf
import torch.distributed as dist
from neuron_fabric import running

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def as_launched() -> None:
    """The environment of a rank under torchrun, derived from the process group of the test."""
    rank, ranks = str(dist.get_rank()), str(dist.get_world_size())
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": "0", "WORLD_SIZE": ranks,
                   "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
                   "TORCHELASTIC_RUN_ID": "test", "HF_HUB_OFFLINE": "1"}


def residuals(fabric: nf.Fabric) -> list[tuple[str, list[float]]]:
    return values_of(fabric.state_dict())


def values_of(state: dict) -> list[tuple[str, list[float]]]:
    """The residuals, by parameter."""
    return [(item["parameter"], item["values"].tolist()) for item in state["memory"]]


def is_closed(fabric: nf.Fabric) -> bool:
    return fabric._session._running not in running._running


def sent(fabric: nf.Fabric) -> tuple[int, int, int]:
    """Steps, bytes sent, and the bytes of plain DDP."""
    summary = fabric.summary()
    return summary.steps, summary.bytes, summary.dense_bytes


def run_python(arguments: list, folder: Path | None = None, **environment: str) -> str:
    """The output of `python arguments`, followed by its errors."""
    done = subprocess.run(
        [forked_python.executable(), *map(str, arguments)], cwd=folder, timeout=240, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
                          "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        | forked_python.environment() | environment,
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
