"""Measures which gradients of a model tolerate low bits, and trains with the resulting profile.

    torchrun --standalone --nproc-per-node 4 examples/torch/calibrate.py profile.json
    torchrun --standalone --nproc-per-node 4 examples/torch/calibrate.py profile.json --train

The first command calibrates, in a separate job with the same model, optimizer and data as in
training. The second command trains with the routes of the profile.
"""

import argparse
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import neuron_fabric as nf

STEPS = int(os.environ.get("STEPS", "200"))
Batch = tuple[torch.Tensor, torch.Tensor]


def make_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))


def batches(order: int) -> Iterator[Batch]:
    """The batches of this rank, without end, in an order that depends on `order`."""
    torch.manual_seed(7)
    teacher = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 10))
    draw = torch.Generator().manual_seed(1000 * order + dist.get_rank())
    while True:
        inputs = torch.randn(32, 64, generator=draw)
        with torch.no_grad():
            labels = teacher(inputs).argmax(-1)
        yield inputs, labels


def calibrate(path: str) -> None:
    model = DistributedDataParallel(make_net())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(batch: Batch) -> torch.Tensor:
        """The body of the training loop."""
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    watch = nf.CalibrationConsole() if dist.get_rank() == 0 else None
    outcome = nf.Calibrator(model, optimizer, step, batches, target="2%", watch=watch,
                            dense_steps=STEPS // 4, branch_steps=STEPS // 8).run()
    if dist.get_rank() == 0:
        print(outcome)
        outcome.save(path, "examples/torch/calibrate.py")


def train(path: str) -> None:
    model = DistributedDataParallel(make_net())
    fabric = nf.attach(model, profile=path, admit="safe")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, batch in zip(range(STEPS), batches(0)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        fabric.observe(loss)
        optimizer.step()
        if dist.get_rank() == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1:4d}  loss {loss.item():.4f}", flush=True)
    if dist.get_rank() == 0:
        print(fabric.summary())
    fabric.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("profile")
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    (train if options.train else calibrate)(options.profile)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
