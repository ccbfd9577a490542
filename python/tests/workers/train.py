"""Trains until it is stopped; reports `ready` after a few steps, `raised` with the exception of
backward, and `usable` once the rank's device is idle."""

import argparse
import json
import os
import signal
import time
from datetime import timedelta

import neuron_fabric as nf
import torch
import torch.distributed as dist
from neuron_fabric.ranks.job import join, wait_for
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 96
LAYERS = 4
READY_STEP = 3


def report(event: str, **facts: object) -> None:
    print(json.dumps({"event": event, "time": time.time()} | facts), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--route")
    parser.add_argument("--profile")
    parser.add_argument("--steps", type=int, default=1 << 60)
    parser.add_argument("--timeout", type=float)
    parser.add_argument("--group-timeout", type=float, default=1800)
    parser.add_argument("--throws", choices=["forward", "backward"], help="rank 1, at step 5")
    parser.add_argument("--stops", action="store_true", help="rank 1, at step 5")
    parser.add_argument("--late", type=float, help="seconds; rank 2, at step 5")
    return parser.parse_args()


def throw(_gradient: object) -> None:
    raise KeyError("no such sample")


def join_job(options: argparse.Namespace) -> torch.device:
    if options.device != "cpu":
        return join(options.device)
    dist.init_process_group("gloo", timeout=timedelta(seconds=options.group_timeout))
    return torch.device("cpu")


def main(options: argparse.Namespace) -> None:
    rank = int(os.environ["RANK"])
    device = join_job(options)
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)))
    # One bucket per layer.
    model = DistributedDataParallel(net.to(device), bucket_cap_mb=4 * WIDTH * WIDTH / 2**20)
    profile = json.loads(options.profile) if options.profile else None
    fabric = nf.attach(model, profile, route=options.route, timeout=options.timeout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(options.steps):
        if step == READY_STEP:
            report("ready", place=fabric.place)
        loss = model(torch.randn(16, WIDTH, device=device)).square().mean()
        if step == 5 and rank == 1 and options.stops:
            os.kill(os.getpid(), signal.SIGSTOP)
        if step == 5 and rank == 2 and options.late:
            time.sleep(options.late)
        if step == 5 and rank == 1 and options.throws == "forward":
            throw(None)
        if step == 5 and rank == 1 and options.throws == "backward":
            net[1][0].weight.register_hook(throw)
        optimizer.zero_grad()
        try:
            loss.backward()
        except RuntimeError as error:
            report("raised", message=str(error), step=step)
            wait_for(device)
            report("usable", one=torch.ones(1, device=device).item())
            raise
        fabric.observe(loss)
        optimizer.step()
    report("end")
    fabric.close()
    dist.destroy_process_group()


main(parse())
