"""Checkpoints with the state of NEURON-Fabric, and a job that torchrun restarts from them.

Every rank saves its own file, because the residuals of error feedback differ between ranks. One rank
exits at step FAIL_AT of the first attempt to demonstrate the restart. (Without
TORCH_DISABLE_SHARE_RDZV_TCP_STORE, torchrun 2.11 keeps the addresses of the ranks that exited, and
Gloo may try to connect to them.)

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    FAIL_AT=30 torchrun --standalone --nproc-per-node 4 --max-restarts 1 \
        examples/torch/resume.py /tmp/checkpoints
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import neuron_fabric as nf

STEPS = int(os.environ.get("STEPS", "60"))
EVERY = 20


def save(folder: Path, step: int, **parts) -> None:
    """Writes one folder per step. `latest` names it after all ranks have written their files."""
    (folder / f"step{step}").mkdir(parents=True, exist_ok=True)
    torch.save({name: part.state_dict() for name, part in parts.items()},
               folder / f"step{step}" / f"rank{dist.get_rank()}.pt")
    dist.barrier()
    if dist.get_rank() == 0:
        (folder / "latest.part").write_text(str(step))
        os.replace(folder / "latest.part", folder / "latest")


def load(folder: Path, **parts) -> int:
    """Loads the latest checkpoint, if there is one. Returns the step to resume at."""
    latest = folder / "latest"
    if not latest.exists():
        return 0
    step = int(latest.read_text())
    checkpoint = torch.load(folder / f"step{step}" / f"rank{dist.get_rank()}.pt")
    for name, part in parts.items():
        part.load_state_dict(checkpoint[name])
    return step


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64))
    model = DistributedDataParallel(net)
    fabric = nf.attach(model, route="waterfill:3+ef")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = load(folder, model=net, optimizer=optimizer, fabric=fabric)
    if rank == 0 and start:
        print(f"resumes at step {start}", flush=True)

    for step in range(start, STEPS):
        torch.manual_seed(1000 * step + rank)  # the same data in every attempt
        inputs = torch.randn(32, 64)
        if rank == 1 and start == 0 and step == int(os.environ.get("FAIL_AT", "-1")):
            os._exit(1)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        if (step + 1) % EVERY == 0:
            save(folder, step + 1, model=net, optimizer=optimizer, fabric=fabric)
            if rank == 0:
                print(f"step {step + 1:4d}  loss {loss.item():.4f}", flush=True)
    fabric.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "checkpoints"))
