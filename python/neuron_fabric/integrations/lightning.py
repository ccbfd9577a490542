"""NEURON-Fabric under Lightning.

    from neuron_fabric.integrations.lightning import NeuronFabricCallback

    trainer = lightning.Trainer(strategy="ddp", callbacks=[NeuronFabricCallback(admit="safe")])
    trainer.fit(model, data)
"""

import logging
from collections.abc import Mapping
from typing import Any

import neuron_fabric as nf
from neuron_fabric.integrations.framework import StepLoss, is_single_process, missing
from neuron_fabric.integrations.state import gather_state, state_of_rank

try:
    import lightning.pytorch as pl
    from lightning.pytorch.trainer.states import TrainerFn
except ModuleNotFoundError as error:
    if error.name not in ("lightning", "lightning.pytorch"):
        raise
    raise missing("lightning", __name__) from error

logger = logging.getLogger(__name__)

_KEY = "neuron_fabric"


class NeuronFabricCallback(pl.Callback):
    """Attaches to the DDP model when training starts, observes the loss of every step, stores the
    state of all ranks in the trainer's checkpoints and restores it from them, and closes the fabric
    when training ends.

    options: the settings of nf.attach(). By default its scaler is that of precision="16-mixed".

    With one device and without DDP, training is the same as without the callback.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.fabric: nf.Fabric | None = None  # set from the start of training on, also after its end
        self._restored: dict[str, object] | None = None
        self._loss = StepLoss()
        self._step = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.fabric is not None:  # from an earlier fit()
            self.fabric.close()
            self.fabric = None
        restored, self._restored = self._restored, None
        model = trainer.strategy.model
        if is_single_process(model, trainer.world_size):
            return
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self.fabric = nf.attach(model, **{"scaler": scaler} | self.options)
        if restored is not None:
            self.fabric.load_state_dict(restored)
        self._loss, self._step = StepLoss(), trainer.global_step

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any,
                           batch: Any, batch_idx: int) -> None:
        if self.fabric is None:
            return
        self._loss.add(outputs.get("loss") if isinstance(outputs, Mapping) else outputs)
        if trainer.global_step != self._step:  # not after a micro-batch whose gradients accumulate
            self._step = trainer.global_step
            self._loss.observe_with(self.fabric.observe)

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule,
                           checkpoint: dict[str, Any]) -> None:
        if self.fabric is not None and (state := gather_state(self.fabric)) is not None:
            checkpoint[_KEY] = state

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule,
                           checkpoint: dict[str, Any]) -> None:
        if trainer.state.fn != TrainerFn.FITTING:  # validate(), test() or predict()
            return
        if _KEY in checkpoint:  # the model is not wrapped yet
            self._restored = state_of_rank(checkpoint[_KEY], trainer.global_rank, trainer.world_size)
        else:
            logger.warning("neuron_fabric: the checkpoint has no Fabric state: error feedback and "
                           "admission start from zero")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.fabric is not None:
            self.fabric.close()

