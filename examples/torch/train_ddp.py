"""A training script for DistributedDataParallel, and the two lines that attach NEURON-Fabric to it.

    torchrun --standalone --nproc-per-node 4 examples/torch/train_ddp.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import neuron_fabric as nf  # the first line

STEPS = int(os.environ.get("STEPS", "200"))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 10))
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                        nn.Linear(512, 10))
    model = DistributedDataParallel(net)
    fabric = nf.attach(model)  # the second line
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    torch.manual_seed(1 + rank)  # every rank has different data
    for step in range(STEPS):
        inputs = torch.randn(32, 64)
        with torch.no_grad():
            labels = teacher(inputs).argmax(-1)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        fabric.observe(loss)  # optional: falls back to dense routes if the loss jumps
        optimizer.step()
        if rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1:4d}  loss {loss.item():.4f}", flush=True)

    if rank == 0:
        print(fabric.summary())
    fabric.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
