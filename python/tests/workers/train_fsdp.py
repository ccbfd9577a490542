"""Trains the model of fsdp_job.py on a mesh until it is stopped; reports `ready` after a few steps, and `raised`
with the exception of a step."""

import argparse
import json
from datetime import timedelta

import torch
import torch.distributed as dist
from fsdp_job import Mesh, batches, loss_of, make

READY_STEP = 3


def report(event: str, **facts: object) -> None:
    print(json.dumps({"event": event} | facts), flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("mesh", type=int, nargs=2, help="replicas and shards")
    parser.add_argument("--within", default="dense")
    parser.add_argument("--route")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--throws", action="store_true", help="the last rank raises after a few steps")
    return parser.parse_args()


def main(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    timeout = timedelta(seconds=options.timeout)
    dist.init_process_group("gloo", timeout=timeout)
    mesh = Mesh(*options.mesh, options.within)
    model = make(mesh)
    for group in list(dist.distributed_c10d._world.pg_map):  # a mesh's own groups have the default of 30 minutes
        dist.distributed_c10d._set_pg_timeout(timeout, group)
    mesh.attach(model, route=options.route, timeout=options.timeout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(batches()):
        if step == READY_STEP:
            report("ready")
            if options.throws and dist.get_rank() == mesh.ranks - 1:
                raise KeyError("no such sample")
        try:
            loss_of(model, batch).backward()
        except RuntimeError as error:
            report("raised", message=str(error), step=step)
            raise
        optimizer.step()
        optimizer.zero_grad()


main(parse())
