"""neuron_fabric.integrations.accelerate on real ranks under Accelerate."""

from pathlib import Path

import neuron_fabric as nf
import pytest
import torch
from integrations import EXAMPLES, TORCHRUN, as_launched, is_closed, residuals, run_python, sent
from ranks import on_ranks
from small_job import CLASSES, FEATURES, digest, make
from torch import nn

STOP, END, BATCH = 6, 12, 8


class Job:
    def __init__(self, folder: Path, **options: object) -> None:
        from accelerate import Accelerator
        from neuron_fabric.integrations.accelerate import attach

        as_launched()
        self.folder = folder
        self.accelerator = Accelerator(cpu=True)
        assert self.accelerator.num_processes == 2
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        generator = torch.Generator().manual_seed(7)
        x = torch.randn(2 * BATCH * END, FEATURES, generator=generator)
        data = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(x, x[:, :CLASSES].argmax(1)), batch_size=BATCH)
        self.model, self.optimizer, self.data = self.accelerator.prepare(model, optimizer, data)
        self.fabric = attach(self.accelerator, self.model, **options)

    def train(self, begin: int, end: int) -> None:
        for step, (x, y) in enumerate(self.data):
            if begin <= step < end:
                self.optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.model(x), y)
                self.accelerator.backward(loss)
                self.fabric.observe(loss)
                self.optimizer.step()


def train_and_save(folder: Path) -> tuple:
    job = Job(folder, route="waterfill:3+ef")
    job.train(0, STOP)
    job.accelerator.save_state(folder)
    kept = residuals(job.fabric)
    job.fabric.close()
    assert is_closed(job.fabric)
    return digest(job.model), kept, sent(job.fabric)


def load_and_train(folder: Path) -> tuple:
    job = Job(folder, route="waterfill:3+ef")
    job.accelerator.load_state(folder)
    step, kept = job.fabric.step, residuals(job.fabric)
    job.train(STOP, END)
    job.accelerator.wait_for_everyone()
    job.fabric.close()
    return digest(job.model), kept, step


def test_checkpoints_restore_the_residuals_of_every_rank(tmp_path):
    saved = on_ranks(2, train_and_save, tmp_path, fresh=True)
    assert saved[0][0] == saved[1][0]
    assert saved[0][1] and saved[0][1] != saved[1][1]
    for _, _, (steps, low, dense) in saved:
        assert steps == STOP
        assert low < 0.25 * dense
    resumed = on_ranks(2, load_and_train, tmp_path, fresh=True)
    assert resumed[0][0] == resumed[1][0]
    for (_, kept, _), (_, loaded, step) in zip(saved, resumed, strict=True):
        assert step == STOP
        assert loaded == kept


def two_models(folder: Path) -> list[str]:
    """Files of a checkpoint of two models."""
    from neuron_fabric.integrations.accelerate import attach

    job = Job(folder, route="waterfill:4")
    other = job.accelerator.prepare(nn.Linear(4, 4))
    second = attach(job.accelerator, other, route="waterfill:3")
    job.accelerator.save_state(folder)
    job.accelerator.wait_for_everyone()
    with pytest.raises(ValueError, match=r"pass the model that accelerator.prepare\(\) returned"):
        attach(job.accelerator, nn.parallel.DistributedDataParallel(nn.Linear(4, 4)))
    job.fabric.close()
    second.close()
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("neuron_fabric"))


def test_each_model_has_its_own_files(tmp_path):
    assert on_ranks(2, two_models, tmp_path, fresh=True)[0] == [
        "neuron_fabric_1_rank0.pt", "neuron_fabric_1_rank1.pt",
        "neuron_fabric_rank0.pt", "neuron_fabric_rank1.pt"]


ALONE = """
import torch
from accelerate import Accelerator
from neuron_fabric.integrations.accelerate import attach
accelerator = Accelerator(cpu=True)
model = accelerator.prepare(torch.nn.Linear(2, 2))
fabric = attach(accelerator, model)
loss = model(torch.ones(1, 2)).sum()
accelerator.backward(loss)
fabric.observe(loss)
accelerator.save_state("checkpoint")
accelerator.load_state("checkpoint")
fabric.close()
print("place", fabric.place)
"""


def test_one_process_runs_without_ranks(tmp_path):
    output = run_python(["-c", ALONE], tmp_path)
    assert "place none" in output
    assert "the job has one process and no DistributedDataParallel model" in output


def test_the_example_runs():
    output = run_python([*TORCHRUN, EXAMPLES / "with_accelerate.py"], STEPS="20")
    assert "waterfill:5" in output and "20 steps" in output


def save_registered(folder: Path) -> str:
    from accelerate import Accelerator

    as_launched()
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(make())
    fabric = nf.attach(model, route="waterfill:3+ef")
    accelerator.register_for_checkpointing(fabric)
    try:
        accelerator.save_state(folder)
    except RuntimeError as error:
        return str(error)
    finally:
        fabric.close()
    return "saved"


def test_a_registered_fabric_is_rejected_at_saving(tmp_path):
    for message in on_ranks(2, save_registered, tmp_path, fresh=True):
        assert "saves the state of the main process only" in message
        assert "neuron_fabric.integrations.accelerate.attach(accelerator, model)" in message
