"""Forks ranks from a process that has PyTorch loaded: one job per line on standard input.

Ranks are plain processes with the environment that torchrun would set: they exit as any script does,
and only the test monitors them. Answers with their process ids, then with the exit code of each rank
as it exits.
"""

import gc
import json
import os
import runpy
import signal
import sys

import torch.distributed
import torch.nn.parallel
from neuron_fabric import comm_hook, ddp, telemetry  # noqa: F401  loaded before the fork


def become_rank(job: dict, rank: int) -> list[str]:
    """The command that the process has to run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server may ignore it
    os.environ.update(job["environment"], RANK=str(rank))
    for number, name in ((1, "out"), (2, "err")):
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        os.dup2(os.open(f"{job['folder']}/{name}{rank}", flags), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return job["command"]


def serve() -> list[str]:
    """Returns in the ranks only."""
    for line in sys.stdin:
        job = json.loads(line)
        pids = []
        for rank in range(job["ranks"]):
            pid = os.fork()
            if pid == 0:
                return become_rank(job, rank)
            pids.append(pid)
        print(json.dumps(pids), flush=True)
        for _ in pids:
            pid, status = os.wait()
            print(json.dumps([pid, os.waitstatus_to_exitcode(status)]), flush=True)
    sys.exit(0)


gc.freeze()  # otherwise every rank copies all of it at exit
sys.argv = serve()
runpy.run_path(sys.argv[0], run_name="__main__")
