"""NEURON-Fabric with Accelerate: pass the model that prepare() returns to attach(). The checkpoints of
save_state() then contain the state of NEURON-Fabric.

    pip install accelerate
    torchrun --standalone --nproc-per-node 2 examples/torch/with_accelerate.py
"""

import os

import torch
from accelerate import Accelerator
from torch import nn

from neuron_fabric.integrations.accelerate import attach

STEPS = int(os.environ.get("STEPS", "100"))


def main() -> None:
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    data = torch.utils.data.DataLoader(
        torch.randn(32 * accelerator.num_processes * STEPS, 64), batch_size=32)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    model, optimizer, data = accelerator.prepare(net, optimizer, data)
    fabric = attach(accelerator, model, admit="safe")

    for batch in data:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), batch)
        accelerator.backward(loss)
        fabric.observe(loss)
        optimizer.step()

    if accelerator.is_main_process:
        print(fabric.summary())
    fabric.close()
    accelerator.end_training()


if __name__ == "__main__":
    main()
