"""Rank 1 runs its steps and exits, while rank 0 still runs the last step, or runs one more."""

import json
import os
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import neuron_fabric as nf
import torch
import torch.distributed as dist
from neuron_fabric import _C
from neuron_fabric.session import Session
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 5
CHECK_SECONDS = 1.0  # during which rank 0 checks its peers several times


class LateWork(dist._Work):
    def __init__(self) -> None:
        super().__init__()
        self.future = torch.futures.Future()

    def wait(self, _timeout: object = None) -> bool:
        self.future.wait()
        return True

    def get_future(self) -> torch.futures.Future:
        return self.future


class SlowLink(dist.ProcessGroup):
    """Sums as `group` does; the work of the last step completes only after rank 1 has exited."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__(group.rank(), group.size())
        self.group = group
        self.is_last = False
        self.works = []

    def allreduce(self, tensors: list[torch.Tensor], options: object) -> LateWork:
        self.group.allreduce(tensors, options).wait()
        work = LateWork()
        self.works.append(work)
        if self.is_last:
            threading.Thread(target=self.end, args=(work, tensors)).start()
        else:
            work.future.set_result(tensors)
        return work

    @staticmethod
    def end(work: LateWork, tensors: list[torch.Tensor]) -> None:
        pid = int(dist.distributed_c10d._get_default_store().get("pid"))
        while is_running(pid):
            time.sleep(0.05)
        time.sleep(CHECK_SECONDS)
        work.future.set_result(tensors)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


def main(rank: int, scenario: str) -> None:
    dist.init_process_group("gloo")
    if rank == 1:
        dist.distributed_c10d._get_default_store().set("pid", str(os.getpid()))
    model = DistributedDataParallel(nn.Linear(32, 32))
    link = SlowLink(model.process_group)
    if rank == 0 and scenario == "late":
        make_runtime = Session._make_runtime

        def over_slow_link(session: Session) -> _C.Runtime:
            with mock.patch.object(session, "group", link):
                return make_runtime(session)

        Session._make_runtime = over_slow_link
    fabric = nf.attach(model, route="fp32")
    for step in range(STEPS + (scenario == "one_more" and rank == 0)):
        link.is_last = step == STEPS - 1
        try:
            model(torch.randn(8, 32)).square().mean().backward()
        except RuntimeError as error:
            print(json.dumps({"event": "raised", "message": str(error)}), flush=True)
            raise
    fabric.close()


main(int(os.environ["RANK"]), *sys.argv[1:])
