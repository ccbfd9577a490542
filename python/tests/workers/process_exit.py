"""Trains a few steps, then exits in the way that the first argument names."""

import ctypes
import gc
import json
import os
import sys
import time

import neuron_fabric as nf
import torch
import torch.distributed as dist
from neuron_fabric.ranks.rendezvous import _all_gather
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 20
PATIENCE = 20.0  # seconds, for threads to end


def make_model() -> DistributedDataParallel:
    torch.manual_seed(0)
    return DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)),
                                   bucket_cap_mb=0.005)


def train(model: nn.Module, steps: int = STEPS) -> None:
    for _ in range(steps):
        model(torch.randn(8, 32)).square().mean().backward()


class MallocInfo(ctypes.Structure):
    """struct mallinfo2 of the GNU C library."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]


def threads_and_memory() -> tuple[int, int]:
    """Threads of this process and its memory in use, in KiB, without the allocator's free lists."""
    with open("/proc/self/status", encoding="ascii") as status:
        figures = dict(line.split(":", 1) for line in status)
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = MallocInfo
    info = library.mallinfo2()
    return int(figures["Threads"]), (info.uordblks + info.hblkhd) // 1024


def attach_and_train(route: str | None) -> tuple[DistributedDataParallel, nf.Fabric]:
    model = make_model()
    fabric = nf.attach(model, route=route)
    train(model)
    return model, fabric


def close_and_destroy(route, _rank):
    _model, fabric = attach_and_train(route)
    fabric.close()
    fabric.close()
    dist.destroy_process_group()


def destroy_and_close(route, _rank):
    _model, fabric = attach_and_train(route)
    dist.destroy_process_group()
    fabric.close()


def destroy_alone(route, _rank):
    _model, _fabric = attach_and_train(route)
    dist.destroy_process_group()


def nothing(route, _rank):
    _model, _fabric = attach_and_train(route)


def globals_are_left(route, _rank):
    """The interpreter destroys them at exit, in any order."""
    sys.modules["__main__"].left = attach_and_train(route)


def model_is_dropped(route, _rank):
    model, fabric = attach_and_train(route)
    del model, fabric
    gc.collect()
    dist.destroy_process_group()


def fabric_is_dropped(route, _rank):
    model = make_model()
    nf.attach(model, route=route)
    gc.collect()
    train(model)
    dist.destroy_process_group()


def raises(route, _rank):
    _model, _fabric = attach_and_train(route)
    raise ValueError("after training")


def is_rejected(_route, _rank):
    nf.attach(make_model(), route="waterfil:4")


def gathers_often(_route, rank):
    """Gloo's thread may hold a tensor a little longer, and aborts a process that exits before that."""
    held = 0
    for _ in range(200):
        mine = torch.tensor([rank])
        gathered = _all_gather(dist.group.WORLD, mine)
        held += any(tensor._use_count() > 1 for tensor in (mine, *gathered))
    print(json.dumps({"event": "gathered", "held": held}), flush=True)
    dist.destroy_process_group()


def rank_0_is_late(route, rank):
    model, fabric = attach_and_train(route)
    if rank == 0:
        time.sleep(1)
        print(fabric.summary())
        fabric.state_dict()
    fabric.close()


def rank_0_is_first(route, rank):
    """Rank 0 has the store."""
    model, fabric = attach_and_train(route)
    if rank != 0:
        time.sleep(1)
        print(fabric.summary())
        fabric.state_dict()


def is_interrupted(route, rank):
    model = make_model()
    _fabric = nf.attach(model, route=route)
    train(model, 3)
    print(json.dumps({"event": "ready"}), flush=True)
    train(model, 1 << 60)


def attaches_often(route, rank):
    """A new model each time; the first few are warm-up."""
    before = None
    for i in range(13):
        model, fabric = attach_and_train(route)
        fabric.close()
        del model, fabric
        gc.collect()
        if i == 2:
            before = threads_and_memory()
    after = threads_and_memory()
    deadline = time.monotonic() + PATIENCE
    while after[0] > before[0] and time.monotonic() < deadline:
        time.sleep(0.05)  # a thread that has been joined may still be counted
        after = threads_and_memory()
    print(json.dumps({"event": "grown", "threads": after[0] - before[0],
                      "kib": after[1] - before[1]}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    ending, route = sys.argv[1:]
    globals()[ending](None if route == "none" else route, int(os.environ["RANK"]))
