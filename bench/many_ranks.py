#!/usr/bin/env python3
"""Attaches and trains with many ranks on this host: time, threads and memory of a process.

    bench/many_ranks.py --ranks 8,64

Ranks are forked from a process that has PyTorch loaded, so a rank costs little memory. They share the
cores of the host: times show what the machine does, not a cluster. bench/README.md has the columns.
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))  # if the package is not installed
import neuron_fabric as nf  # noqa: E402

HOST = "127.0.0.1"
WIDTH = 256


def make_model() -> DistributedDataParallel:
    torch.manual_seed(0)
    return DistributedDataParallel(
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)))


def proc_figure(file: str, name: str) -> int:
    """The number in the line `name` of a file of /proc/self."""
    for line in Path("/proc/self", file).read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise KeyError(f"/proc/self/{file} has no line {name}")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rank_main(rank: int, ranks: int, port: int, options: argparse.Namespace, pipe: Any) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore(HOST, port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dist.barrier()
    threads, begin = proc_figure("status", "Threads"), time.perf_counter()
    fabric = nf.attach(model, route=options.route, topology=options.topology)
    attach_seconds = time.perf_counter() - begin
    used, step_seconds = cpu_seconds(), []
    for _ in range(options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(torch.randn(8, WIDTH)).square().mean().backward()
        optimizer.step()
        step_seconds.append(time.perf_counter() - begin)
    pipe.send({"attach_s": attach_seconds, "step_ms": 1e3 * statistics.median(step_seconds),
               "cpu_ms": 1e3 * (cpu_seconds() - used) / options.steps,
               "threads": proc_figure("status", "Threads"),
               "added": proc_figure("status", "Threads") - threads,
               "mib": proc_figure("smaps_rollup", "Pss") / 1024})
    dist.barrier()
    fabric.close()
    dist.barrier()
    dist.destroy_process_group()


def measure(ranks: int, options: argparse.Namespace) -> dict[str, float]:
    """The figures of the rank with the largest, each."""
    context = multiprocessing.get_context("forkserver")
    store = dist.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    pipes, processes = [], []
    for rank in range(ranks):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=rank_main,
                                  args=(rank, ranks, store.port, options, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        figures = [pipe.recv() for pipe in pipes]
    except EOFError:
        for process in processes:
            process.kill()
        raise SystemExit("many_ranks: a rank failed; its error is above") from None
    for process in processes:
        process.join()
    return {name: max(figure[name] for figure in figures) for name in figures[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="8,64", help="numbers of ranks, with commas (8,64)")
    parser.add_argument("--steps", type=int, default=20, help="training steps (20)")
    parser.add_argument("--route", default="waterfill:4", help="route of the model (waterfill:4)")
    parser.add_argument("--topology", default="auto", help="topology of its sums (auto)")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    multiprocessing.set_forkserver_preload(["torch", "torch.distributed", "torch.nn.parallel",
                                            "neuron_fabric.entry"])
    print(f"{'ranks':>5} {'attach s':>9} {'step ms':>8} {'CPU ms':>7} {'threads':>8} {'added':>6} "
          f"{'MiB':>6}")
    for ranks in map(int, options.ranks.split(",")):
        row = measure(ranks, options)
        print(f"{ranks:>5} {row['attach_s']:>9.2f} {row['step_ms']:>8.1f} {row['cpu_ms']:>7.1f} "
              f"{row['threads']:>8.0f} {row['added']:>6.0f} {row['mib']:>6.1f}", flush=True)


if __name__ == "__main__":
    main()
