"""NEURON-Fabric under Lightning: a callback attaches it to the model that Lightning has wrapped.

    pip install lightning
    python examples/torch/with_lightning.py

On GPUs DDPStrategy(ddp_comm_state=nf.HookState(model), ddp_comm_hook=nf.hook) does the same without
a callback; on CPUs Lightning does not register hooks.
"""

import os
from typing import Any

import lightning
import torch
from torch import nn

import neuron_fabric as nf

STEPS = int(os.environ.get("STEPS", "100"))
RANKS = int(os.environ.get("RANKS", "2"))


class NeuronFabric(lightning.Callback):
    def __init__(self, **options: Any) -> None:
        self.options = options  # of nf.attach()

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.fabric = nf.attach(trainer.model, **self.options)

    def on_train_batch_end(self, trainer, module, outputs, batch, index) -> None:
        self.fabric.observe(outputs["loss"])

    def on_train_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        if trainer.is_global_zero:
            print(self.fabric.summary())
        self.fabric.close()


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
    trainer = lightning.Trainer(accelerator="cpu", devices=RANKS, strategy="ddp", max_steps=STEPS,
                                callbacks=[NeuronFabric(admit="safe")], logger=False,
                                enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Autoencoder(), data)
