"""NEURON-Fabric with Lightning: a callback.

    pip install lightning
    python examples/torch/with_lightning.py
"""

import os

import lightning
import torch
from torch import nn

from neuron_fabric.integrations.lightning import NeuronFabricCallback

STEPS = int(os.environ.get("STEPS", "100"))
RANKS = int(os.environ.get("RANKS", "2"))


class Autoencoder(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        return nn.functional.mse_loss(self.net(batch), batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    lightning.seed_everything(0)
    data = torch.utils.data.DataLoader(torch.randn(32 * RANKS * STEPS, 64), batch_size=32)
    fabric = NeuronFabricCallback(admit="safe")
    trainer = lightning.Trainer(accelerator="cpu", devices=RANKS, strategy="ddp", max_steps=STEPS,
                                callbacks=[fabric], logger=False, enable_checkpointing=False,
                                enable_progress_bar=False)
    trainer.fit(Autoencoder(), data)
    if trainer.is_global_zero:
        print(fabric.fabric.summary())
