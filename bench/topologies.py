#!/usr/bin/env python3
"""Attaches several times, and prints the time of each attach, the measured topologies and the choice.

Runs in every process of a job: under torchrun on this host, or on slow links (docs/howto/slow_links.md).
    torchrun --standalone --nproc-per-node 4 bench/topologies.py
    sudo scripts/slow_links.sh --launcher torch -- .venv/bin/python bench/topologies.py --parameters 4M
"""

import argparse
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))  # if the package is not installed
import neuron_fabric as nf  # noqa: E402
from neuron_fabric.ranks.job import join, leave  # noqa: E402
from neuron_fabric.support.tables import align  # noqa: E402
from step_time import amount, positive  # noqa: E402

LAYERS = 8


def make_model(parameters: int) -> nn.Module:
    width = max(8, round((parameters / LAYERS) ** 0.5))
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS)))


def attach_once(options: argparse.Namespace, topology: str) -> list[str]:
    """The rows of one attach. The model is wrapped anew, since DDP takes one hook."""
    model = DistributedDataParallel(make_model(options.parameters))
    dist.barrier()
    begin = time.perf_counter()
    with nf.attach(model, topology=topology) as fabric:
        seconds = torch.tensor(time.perf_counter() - begin)
        times = fabric.summary().to_dict()["topology_ms"]
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        shown = ", ".join(f"{name} {ms:.1f}" for name, ms in times.items())
        return [topology, f"{float(seconds):.2f}", fabric.topology, shown or "-"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=amount, default=4_000_000, metavar="N",
                        help="parameters of the model, such as 20M (4M)")
    parser.add_argument("--repeat", type=positive, default=3, metavar="N", help="attaches of each kind (3)")
    options = parser.parse_args()
    join("cpu")
    rows = [["topology=", "attach s", "chosen", "ms per bucket"]]
    for _ in range(options.repeat):
        rows += [attach_once(options, topology) for topology in ("direct", "auto")]
    if dist.get_rank() == 0:
        print(align(rows, left=4))
    leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
