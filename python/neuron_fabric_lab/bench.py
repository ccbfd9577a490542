"""`nf bench all_reduce --transport c10d`: starts the ranks of a job, or runs one of its ranks.

nf has validated the command line. It passes the request as text to the extension, which measures and
prints as nf does over other transports.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from neuron_fabric.ranks.launch import Interrupt, LaunchError, launch, run_rank

TIMEOUT_SECONDS = 1800.0  # rank 0 computes exact sums while the other ranks wait


def work(request: str) -> None:
    """The work of every rank. Rank 0 prints."""
    import torch.distributed as dist

    from neuron_fabric import _C
    from neuron_fabric.ranks.job import join, leave
    from neuron_fabric.ranks.own_group import own_group

    join("cpu")
    own = own_group(dist.group.WORLD, TIMEOUT_SECONDS)
    _C.bench_all_reduce(dist.group.WORLD, own, request)
    leave()  # `own` must still exist: the other ranks would take its end for a crash


def run_in_job(request: str) -> int:
    try:
        return run_rank(lambda: work(request))
    except RuntimeError as error:
        print(f"nf: {error}", file=sys.stderr)
        return 1


def start_job(arguments: list[str], ranks: int) -> int:
    folder = Path(tempfile.mkdtemp(prefix="nf-bench-"))
    code = 0
    try:
        launch("neuron_fabric_lab.bench", arguments, ranks, folder)
    except LaunchError as error:
        print(f"nf: {error}", file=sys.stderr)
        return 1  # keep the folder with the logs of the ranks
    except (KeyboardInterrupt, Interrupt) as error:
        code = 128 + getattr(error, "number", signal.SIGINT)
    shutil.rmtree(folder, ignore_errors=True)
    return code


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m neuron_fabric_lab.bench", description=__doc__)
    parser.add_argument("--ranks", type=int, default=4, help="ranks to start, outside of a job (4)")
    parser.add_argument("request", help="the request, as nf writes it")
    options = parser.parse_args(arguments)
    if "RANK" in os.environ:
        return run_in_job(options.request)
    return start_job(arguments, options.ranks)


if __name__ == "__main__":
    sys.exit(main())
