"""NEURON-Fabric with the Hugging Face Trainer: a callback that holds a reference to its trainer.

    pip install transformers accelerate
    torchrun --standalone --nproc-per-node 2 examples/torch/with_transformers.py
"""

import os
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from neuron_fabric.integrations.transformers import NeuronFabricCallback

STEPS = int(os.environ.get("STEPS", "100"))
WORDS, LENGTH = 256, 32


def main() -> None:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=WORDS,
                                       n_positions=LENGTH, bos_token_id=0, eos_token_id=0))
    data = [{"input_ids": row, "labels": row} for row in torch.randint(0, WORDS, (512, LENGTH))]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(output_dir=folder, use_cpu=True, max_steps=STEPS, report_to=[],
                                      save_strategy="no", disable_tqdm=True)
        trainer = Trainer(model, arguments, train_dataset=data)
        callback = NeuronFabricCallback(trainer, admit="safe")
        trainer.add_callback(callback)
        trainer.train()
        if trainer.is_world_process_zero():
            print(callback.fabric.summary())


if __name__ == "__main__":
    main()
