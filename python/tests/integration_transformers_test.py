"""neuron_fabric.integrations.transformers on real ranks under the Hugging Face Trainer."""

from pathlib import Path

import torch
from integrations import EXAMPLES, TORCHRUN, as_launched, is_closed, residuals, run_python, sent
from ranks import on_ranks
from small_job import digest

STOP, END, BATCH, MICRO_BATCHES = 6, 12, 4, 2
WORDS, LENGTH = 64, 16


def make_job(folder: Path, steps: int, **options: object) -> tuple:
    """Trainer and callback of one rank."""
    as_launched()
    return make_trainer(folder, steps, **options)


def make_trainer(folder: Path, steps: int, **options: object) -> tuple:
    from neuron_fabric.integrations.transformers import NeuronFabricCallback
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=WORDS,
                                       n_positions=LENGTH))
    words = torch.randint(0, WORDS, (2 * MICRO_BATCHES * BATCH * END, LENGTH))
    data = [{"input_ids": row, "labels": row} for row in words]
    arguments = TrainingArguments(
        output_dir=str(folder), use_cpu=True, max_steps=steps, save_steps=STOP,
        per_device_train_batch_size=BATCH, gradient_accumulation_steps=MICRO_BATCHES,
        report_to=[], disable_tqdm=True, logging_steps=STOP, seed=0)
    trainer = Trainer(model, arguments, train_dataset=data)
    callback = NeuronFabricCallback(trainer, **options)
    trainer.add_callback(callback)
    return trainer, callback


def train_and_save(folder: Path) -> tuple:
    trainer, callback = make_job(folder, STOP, route="waterfill:3+ef")
    trainer.train()
    assert is_closed(callback.fabric)
    return (digest(trainer.model), residuals(callback.fabric), sent(callback.fabric),
            callback.fabric.summary().loss)


def resume(folder: Path, checkpoint: str | bool) -> tuple:
    trainer, callback = make_job(folder, END, route="waterfill:3+ef")
    first = []
    at_begin = callback.on_train_begin

    def look(*args: object, **options: object) -> None:
        at_begin(*args, **options)
        first.extend([callback.fabric.step, residuals(callback.fabric)])

    callback.on_train_begin = look
    trainer.train(resume_from_checkpoint=checkpoint)
    assert is_closed(callback.fabric)
    return digest(trainer.model), *first, callback.fabric.step


def test_checkpoints_restore_the_residuals_of_every_rank(tmp_path):
    saved = on_ranks(2, train_and_save, tmp_path, fresh=True)
    assert saved[0][0] == saved[1][0]
    assert saved[0][1] and saved[0][1] != saved[1][1]
    for _, _, (steps, low, dense), loss in saved:
        assert steps == STOP
        assert low < 0.25 * dense
        assert 3.5 < loss < 5.0  # about log(WORDS): the loss of a step, not of a micro-batch
    checkpoint = tmp_path / f"checkpoint-{STOP}"
    moved = checkpoint.rename(tmp_path / "elsewhere")
    resumed = on_ranks(2, resume, tmp_path, str(moved), fresh=True)
    assert resumed[0][0] == resumed[1][0] != saved[0][0]
    for (_, kept, *_), (_, step, loaded, last) in zip(saved, resumed, strict=True):
        assert (step, last) == (STOP, END)
        assert loaded == kept


def train_twice(folder: Path) -> tuple:
    trainer, callback = make_job(folder, STOP, route="waterfill:4")
    trainer.train()
    first = callback.fabric
    trainer.args.max_steps = END
    trainer.train(resume_from_checkpoint=True)
    return [(fabric.step, is_closed(fabric)) for fabric in (first, callback.fabric)]


def test_a_trainer_can_train_twice(tmp_path):
    assert on_ranks(2, train_twice, tmp_path, fresh=True) == [[(STOP, True), (END, True)]] * 2


ALONE = """
from pathlib import Path
from integration_transformers_test import make_trainer
trainer, callback = make_trainer(Path("."), 2)
trainer.train()
print(trainer.state.global_step, callback.fabric, list(Path(".").rglob("neuron_fabric*")))
"""


def test_one_process_trains_as_without_the_callback(tmp_path):
    output = run_python(["-c", ALONE], tmp_path)
    assert "2 None []" in output
    assert "the job has one process and no DistributedDataParallel model" in output


def test_the_example_runs(tmp_path):
    output = run_python([*TORCHRUN, EXAMPLES / "with_transformers.py"], tmp_path, STEPS="20")
    assert "waterfill:5" in output and "20 steps" in output
