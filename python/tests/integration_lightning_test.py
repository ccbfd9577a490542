"""neuron_fabric.integrations.lightning on real ranks under Lightning."""

from pathlib import Path

import torch
import torch.distributed as dist
from integrations import EXAMPLES, as_launched, is_closed, residuals, run_python, sent, values_of
from ranks import on_ranks
from small_job import CLASSES, FEATURES, Classifier, digest
from torch import nn

STOP, END, BATCH = 6, 12, 8
MICRO_BATCHES = 2


def make_job(folder: Path, steps: int, **options: object) -> tuple:
    """Trainer, module, data and callback."""
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint
    from neuron_fabric.integrations.lightning import NeuronFabricCallback

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Classifier()

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            x, y = batch
            return nn.functional.cross_entropy(self.net(x), y)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)

    as_launched()
    torch.manual_seed(0)
    x = torch.randn(2 * MICRO_BATCHES * BATCH * END, FEATURES)
    data = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, x[:, :CLASSES].argmax(1)), batch_size=BATCH)
    callback = NeuronFabricCallback(**options)
    every = ModelCheckpoint(folder, "{step}", every_n_train_steps=STOP // 2, save_top_k=-1)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=dist.get_world_size(), strategy="ddp", max_steps=steps,
        accumulate_grad_batches=MICRO_BATCHES, callbacks=[every, callback], default_root_dir=folder,
        logger=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0)
    return trainer, Module(), data, callback


def train_and_save(folder: Path) -> tuple:
    trainer, module, data, callback = make_job(folder, STOP, route="waterfill:3+ef")
    trainer.fit(module, data)
    assert is_closed(callback.fabric)
    trainer.save_checkpoint(folder / "after.ckpt")
    return (digest(module), residuals(callback.fabric), sent(callback.fabric),
            callback.fabric.summary().loss)


def resume(folder: Path) -> tuple:
    trainer, module, data, callback = make_job(folder, END, route="waterfill:3+ef")
    first = []
    at_start = callback.on_train_start

    def look(*args: object) -> None:
        at_start(*args)
        first.extend([callback.fabric.step, residuals(callback.fabric)])

    callback.on_train_start = look
    trainer.fit(module, data, ckpt_path=folder / f"step={STOP}.ckpt")
    assert is_closed(callback.fabric)
    return digest(module), *first, callback.fabric.step


def test_checkpoints_restore_the_residuals_of_every_rank(tmp_path):
    saved = on_ranks(2, train_and_save, tmp_path, fresh=True)
    assert saved[0][0] == saved[1][0]
    assert saved[0][1] and saved[0][1] != saved[1][1]
    for _, _, (steps, low, dense), loss in saved:
        assert steps == STOP
        assert low < 0.25 * dense
        assert 1.5 < loss < 3.0  # about log(CLASSES), not halved by the accumulation
    for file, step in (("step=3", 3), ("step=6", STOP), ("after", STOP)):
        states = torch.load(tmp_path / f"{file}.ckpt", weights_only=True)["neuron_fabric"]["states"]
        assert [state["rank"] for state in states] == [0, 1]
        is_last = [values_of(state) == kept for state, (_, kept, *_) in zip(states, saved, strict=True)]
        assert is_last == [step == STOP] * 2
    resumed = on_ranks(2, resume, tmp_path, fresh=True)
    assert resumed[0][0] == resumed[1][0] != saved[0][0]
    for (_, kept, *_), (_, step, loaded, last) in zip(saved, resumed, strict=True):
        assert (step, last) == (STOP, END)
        assert loaded == kept


def fit_twice(folder: Path) -> list[tuple[int, bool]]:
    trainer, module, data, callback = make_job(folder, STOP, route="waterfill:4")
    trainer.fit(module, data)
    first = callback.fabric
    trainer.fit_loop.epoch_loop.max_steps = END
    trainer.fit(module, data)
    return [(fabric.step, is_closed(fabric)) for fabric in (first, callback.fabric)]


def test_a_trainer_can_fit_twice(tmp_path):
    assert on_ranks(2, fit_twice, tmp_path, fresh=True) == [[(STOP, True), (END - STOP, True)]] * 2


ALONE = """
import lightning, torch
from lightning.pytorch.demos.boring_classes import BoringModel
from neuron_fabric.integrations.lightning import NeuronFabricCallback
callback = NeuronFabricCallback(route="waterfill:4")
trainer = lightning.Trainer(accelerator="cpu", devices=1, max_steps=2, limit_val_batches=0,
                            callbacks=[callback], logger=False, enable_progress_bar=False)
trainer.fit(BoringModel())
print("fabric", callback.fabric)
"""


def test_one_process_trains_as_without_the_callback(tmp_path):
    output = run_python(["-c", ALONE], tmp_path)
    assert "fabric None" in output
    assert "the job has one process and no DistributedDataParallel model" in output


def test_the_example_runs():
    output = run_python([EXAMPLES / "with_lightning.py"], STEPS="20")
    assert "waterfill:5" in output and "20 steps" in output
