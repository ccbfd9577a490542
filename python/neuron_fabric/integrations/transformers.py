"""NEURON-Fabric under the Hugging Face Trainer.

    from neuron_fabric.integrations.transformers import NeuronFabricCallback

    trainer = Trainer(model, args, train_dataset=data)
    trainer.add_callback(NeuronFabricCallback(trainer, admit="safe"))
    trainer.train()
"""

import functools
from pathlib import Path
from typing import Any

import torch

import neuron_fabric as nf
from neuron_fabric.integrations.framework import StepLoss, is_single_process, missing
from neuron_fabric.integrations.state import load_state, save_state

try:
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise missing("transformers", __name__) from error


class NeuronFabricCallback(TrainerCallback):
    """Attaches to the DDP model when training starts, observes the loss of every step, stores every
    rank's state in the trainer's checkpoints and restores it from them, and closes the fabric when
    training ends.

    trainer: the trainer that the callback is added to. Callbacks receive neither the DDP model
        (trainer.model_wrapped), nor losses, nor the checkpoint to resume from; so train() and
        training_step() of this trainer are wrapped.
    options: the settings of nf.attach(). By default its scaler is that of fp16=True.

    With one process and without DDP, training is the same as without the callback. Checkpoints of a
    hyperparameter search do not contain the state.
    """

    def __init__(self, trainer: Trainer, **options: Any) -> None:
        self.trainer = trainer
        self.options = options
        self.fabric: nf.Fabric | None = None  # set from the start of training on, also after its end
        self._resume: str | bool | None = None
        self._loss = StepLoss()
        trainer.train = self._with_checkpoint(trainer.train)
        trainer.training_step = self._adding_loss(trainer.training_step)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.fabric is not None:  # the trainer restarts with a smaller batch
            self.fabric.close()
            self.fabric = None
        self._loss = StepLoss()
        model = self.trainer.model_wrapped
        if is_single_process(model, args.world_size):
            return
        self.fabric = nf.attach(model, **{"scaler": self.trainer.accelerator.scaler} | self.options)
        if self._resume:
            folder = get_last_checkpoint(args.output_dir) if self._resume is True else self._resume
            load_state(self.fabric, folder)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.fabric is not None:
            self._loss.observe_with(self.fabric.observe)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.fabric is None or args.save_only_model or state.is_hyper_param_search:
            return
        save_state(self.fabric, Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.fabric is not None:
            self.fabric.close()
            # A closed fabric cannot reduce gradients: another train() wraps the model again.
            self.trainer.model_wrapped = self.trainer.model

    def _with_checkpoint(self, train: Any) -> Any:
        @functools.wraps(train)
        def wrapped(resume_from_checkpoint: Any = None, *args: Any, **options: Any) -> Any:
            self._resume = resume_from_checkpoint
            return train(resume_from_checkpoint, *args, **options)

        return wrapped

    def _adding_loss(self, training_step: Any) -> Any:
        @functools.wraps(training_step)
        def wrapped(*args: Any, **options: Any) -> torch.Tensor:
            loss = training_step(*args, **options)
            self._loss.add(loss)
            return loss

        return wrapped
