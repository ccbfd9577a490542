#!/usr/bin/env python3
"""Trains one workload along one route and keeps what came of it: losses, times, decisions, memory.

Runs in every process of a job, as bench/step_time.py does. What is done so far is kept in
DIR/NAME.json and DIR/NAME.pt, so a run that was stopped, or has used up --seconds, goes on when the
same command is given again. bench/plot_losses.py draws several of them.
    torchrun --standalone --nproc-per-node 4 bench/train.py --device cuda --size 124m --batch 4 \\
        --route waterfill:4 --steps 1000 --out losses
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))  # where it is not installed
from neuron_fabric.job import arithmetic, join, wait_for
from neuron_fabric.workloads import make_workload

OPTIONS_THAT_MATTER = ("workload", "size", "batch", "route", "profile", "admit", "seed", "steps")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="gpt", help="(gpt)")
    parser.add_argument("--size", help="of the workload")
    parser.add_argument("--data", type=Path, help="the folder of cifar100 and cifar10")
    parser.add_argument("--batch", type=int, help="rows a rank")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="(cpu)")
    parser.add_argument("--route", default="plain",
                        help="plain: DDP alone; plain_bf16: with PyTorch's BF16 hook; any other: "
                        "attach(route=...); profile: attach() with --profile and --admit (plain)")
    parser.add_argument("--profile", type=Path, help="a file; the default profile without it")
    parser.add_argument("--admit", default="useful", help="(useful)")
    parser.add_argument("--topology", default="auto", help="of low-bit sums (auto)")
    parser.add_argument("--reducer", default="ranks", help="ranks, or cxl: attach(reducer=...) (ranks)")
    parser.add_argument("--record", type=Path, help="keep the buckets' sizes for nf replay")
    parser.add_argument("--steps", type=int, default=100, help="(100)")
    parser.add_argument("--seed", type=int, default=1, help="(1)")
    parser.add_argument("--seconds", type=float, default=480,
                        help="stop, to be resumed, after so many (480)")
    parser.add_argument("--breach-at", type=int, metavar="STEP",
                        help="at this step a reducer outside the ranks refuses work: all fall back")
    parser.add_argument("--run-dir", type=Path, help="for nf report")
    parser.add_argument("--name", help="of the files (the route's)")
    parser.add_argument("--out", type=Path, default=Path("build/train"), help="(build/train)")
    return parser.parse_args()


class Run:
    """One model on its way. Everything but the files is the same on every rank."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        self.options, self.device = options, device
        self.workload = make_workload(options.workload, options.size, options.data)
        if options.batch:
            self.workload.batch_size = options.batch
        self.model = self.workload.make_model(options.seed).to(device)
        self.ddp = DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        self.fabric: Any = None
        self.optimizer = self.workload.make_optimizer(self.model)
        self.losses: list[float] = []
        self.times: list[float] = []
        name = (options.name or options.route).replace(":", "_")
        self.json_file = options.out / f"{name}.json"
        self.state_file = options.out / f"{name}.rank{dist.get_rank()}.pt"

    def attach(self) -> None:
        options = self.options
        if options.route == "plain_bf16":
            self.ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
        elif options.route != "plain":
            import neuron_fabric as nf  # plain DDP needs no extension

            how: dict[str, Any] = {"route": options.route}
            if options.route == "profile":
                how = {"profile": options.profile, "admit": options.admit}
            self.fabric = nf.attach(self.ddp, topology=options.topology, reducer=options.reducer,
                                    record=options.record, run_dir=options.run_dir, **how)

    def same_options(self) -> dict[str, str]:
        return {name: str(getattr(self.options, name)) for name in OPTIONS_THAT_MATTER}

    def resume(self) -> None:
        if not self.state_file.exists():
            return
        state = torch.load(self.state_file, map_location=self.device)
        if state["options"] != self.same_options():
            sys.exit(f"train: {self.state_file} is of a run with other options; remove it, or "
                     "give this one another --name")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.losses, self.times = state["losses"], state["times"]
        if self.fabric is not None:
            self.fabric.load_state_dict(state["fabric"])

    def save(self) -> None:
        """Every rank its own, and only whole ones."""
        self.options.out.mkdir(parents=True, exist_ok=True)
        state = {"options": self.same_options(), "model": self.model.state_dict(),
                 "optimizer": self.optimizer.state_dict(), "losses": self.losses,
                 "times": self.times,
                 "fabric": self.fabric.state_dict() if self.fabric is not None else None}
        half = self.state_file.with_suffix(".half")
        torch.save(state, half)
        half.replace(self.state_file)

    def train(self) -> None:
        options = self.options
        began = time.monotonic()
        batches = self.workload.batches(dist.get_rank(), dist.get_world_size(), options.seed,
                                        start=len(self.losses))
        pending: list[torch.Tensor] = []
        for step in range(len(self.losses), options.steps):
            for group in self.optimizer.param_groups:
                base = group.setdefault("base_rate", group["lr"])
                group["lr"] = base * self.workload.rate(step, options.steps)
            if step == options.breach_at and dist.get_rank() == 0 and self.fabric is not None:
                self.fabric.report_capacity_breach()
            before = time.perf_counter()
            self.optimizer.zero_grad()
            with arithmetic(self.device):
                loss = self.workload.loss(self.ddp, next(batches))
            loss.backward()
            self.optimizer.step()
            pending.append(loss.detach())
            self.times.append(time.perf_counter() - before)
            if len(pending) == 20 or step + 1 == options.steps:
                self.take(pending)
                self.show(step + 1)
                if self.is_over(began):
                    break

    def take(self, pending: list[torch.Tensor]) -> None:
        """The mean over ranks, of several steps at once: nobody waits for the device at each."""
        means = torch.stack(pending).float()
        dist.all_reduce(means)
        self.losses += (means / dist.get_world_size()).tolist()
        pending.clear()

    def is_over(self, began: float) -> bool:
        """Whether rank 0 says that time is up."""
        over = torch.tensor([float(time.monotonic() - began > self.options.seconds)])
        dist.broadcast(over, src=0)
        return bool(over.item())

    def show(self, step: int) -> None:
        if dist.get_rank() == 0 and sys.stderr.isatty():
            print(f"\rstep {step} of {self.options.steps}, loss {self.losses[-1]:.4f}", end="",
                  file=sys.stderr, flush=True)

    def result(self) -> dict[str, Any]:
        parameters = list(self.model.parameters())
        result = {
            "route": self.options.route, "workload": self.options.workload,
            "size": self.options.size, "ranks": dist.get_world_size(),
            "device": self.device.type, "batch": self.workload.batch_size,
            "parameters": sum(p.numel() for p in parameters),
            "gradient_bytes": sum(p.numel() * p.element_size() for p in parameters),
            "steps": len(self.losses), "losses": self.losses, "host_seconds": self.times,
        }
        if self.fabric is not None:
            result |= {"place": self.fabric.place, "held_bytes": self.fabric.held_bytes,
                       "summary": self.fabric.summary().to_dict()}
        if self.device.type == "cuda":
            result["peak_allocated"] = torch.cuda.max_memory_allocated(self.device)
        return result


def main() -> int:
    options = parse()
    run = Run(options, join(options.device))
    run.attach()
    run.resume()
    wait_for(run.device)
    dist.barrier()
    began, first = time.perf_counter(), len(run.losses)
    run.train()
    wait_for(run.device)
    seconds = time.perf_counter() - began
    result = run.result() | {"seconds": seconds, "seconds_a_step":
                             seconds / max(1, len(run.losses) - first)}
    run.save()
    if dist.get_rank() == 0:
        run.json_file.write_text(json.dumps(result))
        last = run.losses[-50:]
        print(f"{options.route}: {len(run.losses)} of {options.steps} steps, "
              f"{1000 * result['seconds_a_step']:.1f} ms each, mean of the last losses "
              f"{sum(last) / max(1, len(last)):.4f}")
        if run.fabric is not None:
            print(run.fabric.summary())
    if run.fabric is not None:
        run.fabric.close()
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
