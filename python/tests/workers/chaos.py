"""Trains a job of chaos.plan from its newest checkpoint to the end. Reports `ready` after its first checkpoint,
`raised` with the exception of a step, and `end` with the bits of this rank's parameters.

SIGUSR1: the next backward pass raises. SIGUSR2: no more memory can be allocated.
"""

import argparse
import hashlib
import json
import os
import resource
import signal
import time
from datetime import timedelta
from pathlib import Path

import fsdp_job
import neuron_fabric as nf
import small_job
import torch
import torch.distributed as dist
from torch import nn

STEPS = 45
SAVE_EVERY = 4
PACE = 0.02  # seconds per step, so that events meet the job in all of its phases
SPARE_MEMORY = 1 << 20
MESHES = {"fsdp2": lambda ranks: fsdp_job.Mesh(0, ranks), "replicate": lambda ranks: fsdp_job.Mesh(ranks, 0),
          "hsdp": lambda ranks: fsdp_job.Mesh(2, ranks // 2),
          "hsdp_low_bit": lambda ranks: fsdp_job.Mesh(2, ranks // 2, "low_bit")}
ADMITTED = small_job.profile({"head": "waterfill:4", "rest": "waterfill:5"},
                             health={"warm_up_steps": 4, "cool_down_steps": 8, "probation_steps": 4},
                             regions=[{"name": "head", "names": ["head.weight"]}, {"name": "rest"}])

raises = False


def report(event: str, **facts: object) -> None:
    print(json.dumps({"event": event} | facts), flush=True)


def on_usr1(*_: object) -> None:
    global raises
    raises = True


def on_usr2(*_: object) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SPARE_MEMORY, resource.RLIM_INFINITY))


def throw(_gradient: object) -> None:
    raise KeyError("no such sample")


class Run:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.rank, self.ranks = options, dist.get_rank(), dist.get_world_size()
        how = {"profile": ADMITTED, "admit": "safe"} if options.route == "admitted" else {"route": options.route}
        how["timeout"] = options.timeout
        if options.source == "ddp":
            # With one bucket, a resumed run has the bits of an uninterrupted one.
            self.model = small_job.wrap(small_job.make(), bucket_cap_mb=25)
            self.features = small_job.FEATURES
            self.fabric = nf.attach(self.model, **how)
        else:
            mesh = MESHES[options.source](self.ranks)
            self.model = fsdp_job.make(mesh)
            self.features = fsdp_job.FEATURES
            for group in list(dist.distributed_c10d._world.pg_map):  # a mesh's groups have the default of 30 minutes
                dist.distributed_c10d._set_pg_timeout(timedelta(seconds=options.timeout), group)
            self.fabric = mesh.attach(self.model, **how)
        self.step = 0

    def locals(self) -> list[torch.Tensor]:
        return [getattr(one, "_local_tensor", one).data for one in self.model.parameters()]

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(1000 * self.step + self.rank)
        x = torch.randn(16, self.features, generator=generator)
        return x, x[:, :5].argmax(1)

    def train_step(self, optimizer: torch.optim.Optimizer) -> None:
        x, y = self.batch()
        loss = nn.functional.cross_entropy(self.model(x), y)
        if raises:
            loss.register_hook(throw)
        loss.backward()
        self.fabric.observe(loss)
        optimizer.step()
        optimizer.zero_grad()
        self.step += 1

    def file(self, step: int) -> Path:
        return self.options.folder / f"rank{self.rank}-step{step}.pt"

    def saved_steps(self) -> list[int]:
        return sorted(int(path.stem.rpartition("step")[2]) for path in self.options.folder.glob(f"rank{self.rank}-*.pt"))

    def save(self) -> None:
        """Keeps the last two: another rank may have died before it saved this one."""
        partial = self.file(self.step).with_suffix(".partial")
        torch.save({"parameters": self.locals(), "fabric": self.fabric.state_dict()}, partial)
        os.replace(partial, self.file(self.step))
        for step in self.saved_steps()[:-2]:
            self.file(step).unlink()

    def load(self) -> None:
        steps: list = [None] * self.ranks
        dist.all_gather_object(steps, self.saved_steps())
        common = set.intersection(*map(set, steps))
        if not common:
            return
        self.step = max(common)
        saved = torch.load(self.file(self.step), weights_only=True)
        for ours, theirs in zip(self.locals(), saved["parameters"], strict=True):
            ours.copy_(theirs)
        self.fabric.load_state_dict(saved["fabric"])

    def digest(self) -> str:
        hashed = hashlib.sha256()
        for values in self.locals():
            hashed.update(values.contiguous().view(torch.uint8).numpy().tobytes())
        return hashed.hexdigest()[:16]


def train(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=2 * options.timeout))
    run = Run(options)
    run.load()
    first = run.step
    optimizer = torch.optim.SGD(run.model.parameters(), lr=0.05)
    while run.step < STEPS:
        run.train_step(optimizer)
        if run.step % SAVE_EVERY == 0:
            run.save()
            report("ready")
        time.sleep(PACE)
    report("end", digest=run.digest(), resumed_at=first)
    run.fabric.close()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", choices=["ddp", *MESHES])
    parser.add_argument("--route", required=True)
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGUSR1, on_usr1)
    signal.signal(signal.SIGUSR2, on_usr2)
    try:
        train(options)
    except Exception as error:
        report("raised", message=str(error), kind=type(error).__name__)
        raise


main()
