"""Rank 1 passes a bucket twice, which is rejected, while rank 0 is late; reports `raised` with the
exception of backward, and `usable` once the rank's device is idle."""

import argparse
import json
import os
import time

import neuron_fabric as nf
import torch
import torch.distributed as dist
from neuron_fabric.ranks.job import join, wait_for
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 96
STEP = 5


def report(event: str, **facts: object) -> None:
    print(json.dumps({"event": event, "time": time.time()} | facts), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--late", type=float, help="seconds, rank 0")
    return parser.parse_args()


def hook(state: nf.HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    future = nf.hook(state, bucket)
    is_repeated = dist.get_rank() == 1 and state.fabric.step == STEP and bucket.index() == 0
    return nf.hook(state, bucket) if is_repeated else future


def main(options: argparse.Namespace) -> None:
    device = join(options.device)
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(4)))
    model = DistributedDataParallel(net.to(device), bucket_cap_mb=4 * WIDTH * WIDTH / 2**20)
    state = nf.HookState(net, route="waterfill:4")
    model.register_comm_hook(state, hook)
    report("place", place=state.fabric.place)
    while True:
        model.zero_grad()
        loss = model(torch.randn(16, WIDTH, device=device)).square().mean()
        if rank == 0 and state.fabric.step == STEP:
            wait_for(device)
            time.sleep(options.late)
        try:
            loss.backward()
        except RuntimeError as error:
            report("raised", message=str(error))
            wait_for(device)
            report("usable", one=torch.ones(1, device=device).item())
            raise


main(parse())
