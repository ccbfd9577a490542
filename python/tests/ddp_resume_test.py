"""A resumed run has the bits of a run that attached again in the same process: both have a new DDP,
whose buckets contain other parameters in the first step. With one bucket, only the order differs, and
the resumed run has the bits of an uninterrupted one."""

import itertools
import time
import warnings
from pathlib import Path

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from small_job import BUCKET_MB, Records, batches, digest, loss_of, make, profile, sgd, wrap

STOP, END = 20, 40
NAN_STEP = 15  # the run stops in the middle of the cool-down

FORCED = {"route": "waterfill:3+ef"}
LOW_RANK = {"route": "powersgd:2"}
RMS = {"route": "waterfill:3+rms"}
# At step 20, `second` is in its cool-down, and `rest` is low-bit and has residuals.
ADMITTED = {
    "profile": profile({"second": "waterfill:3+ef", "rest": "waterfill:4+ef"},
                       health={"warm_up_steps": 12, "cool_down_steps": 6, "probation_steps": 5,
                               "error_budget": 1e6}),  # the small samples of this model can exceed 1
    "admit": "safe",
}


class Job:
    """One rank's model and the contents of its checkpoint."""

    def __init__(self, *, bucket_mb: float = BUCKET_MB, **options: object) -> None:
        self.options, self.bucket_mb = options, bucket_mb
        self.model = make()
        self.optimizer = sgd(self.model)
        self.step = 0
        self.model.second.weight.register_hook(self._corrupt)
        self._attach()

    def _attach(self) -> None:
        self.ddp = wrap(self.model, bucket_cap_mb=self.bucket_mb)
        self.fabric = nf.attach(self.ddp, **self.options)

    def _corrupt(self, gradient: torch.Tensor) -> torch.Tensor:
        is_bad = self.step == NAN_STEP and dist.get_rank() == 1
        return gradient * float("nan") if is_bad else gradient

    def train(self, end: int) -> list[str]:
        digests = []
        data = itertools.islice(batches(), self.step, end)
        for self.step, batch in enumerate(data, self.step):
            self.optimizer.zero_grad()
            loss = loss_of(self.ddp, batch)
            loss.backward()
            self.fabric.observe(loss)
            if self.fabric.should_step():
                self.optimizer.step()
            digests.append(digest(self.model))
        self.step = end
        return digests

    def attach_again(self) -> None:
        state = self.fabric.state_dict()
        self.fabric.close()
        self._attach()
        self.fabric.load_state_dict(state)

    def save(self, folder: Path) -> None:
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "step": self.step, "fabric": self.fabric.state_dict()},
                   folder / f"rank{dist.get_rank()}.pt")

    def load(self, folder: Path, *, rank: int | None = None, with_fabric: bool = True) -> None:
        file = folder / f"rank{dist.get_rank() if rank is None else rank}.pt"
        saved = torch.load(file, weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step = saved["step"]
        if with_fabric:
            self.fabric.load_state_dict(saved["fabric"])


def run_through(options: dict, attach_again: bool = True) -> list[str]:
    job = Job(**options)
    digests = job.train(STOP)
    if attach_again:
        job.attach_again()
    digests += job.train(END)
    job.fabric.close()
    return digests


def run_and_stop(options: dict, folder: Path) -> list[str]:
    job = Job(**options)
    digests = job.train(STOP)
    job.save(folder)
    job.fabric.close()
    return digests


def resume(options: dict, folder: Path, with_fabric: bool = True) -> list[str]:
    job = Job(**options)
    job.load(folder, with_fabric=with_fabric)
    assert job.fabric.step == (STOP if with_fabric else 0)
    digests = job.train(END)
    job.fabric.close()
    return digests


@pytest.mark.parametrize("options", [FORCED, LOW_RANK, RMS, ADMITTED],
                         ids=["forced", "low_rank", "rms", "admitted"])
def test_a_resumed_run_has_the_bits_of_a_run_that_attached_again(tmp_path, options):
    through = on_ranks(2, run_through, options)
    before = on_ranks(2, run_and_stop, options, tmp_path, fresh=True)
    after = on_ranks(2, resume, options, tmp_path, fresh=True)
    for rank in range(2):
        assert before[rank] + after[rank] == through[rank]
    assert through[0] == through[1]


@pytest.mark.parametrize("options", [FORCED, LOW_RANK, RMS, ADMITTED],
                         ids=["forced", "low_rank", "rms", "admitted"])
def test_a_resumed_run_with_one_bucket_has_the_bits_of_an_uninterrupted_run(tmp_path, options):
    options = options | {"bucket_mb": 25}
    through = on_ranks(3, run_through, options, attach_again=False)
    before = on_ranks(3, run_and_stop, options, tmp_path)
    after = on_ranks(3, resume, options, tmp_path, fresh=True)
    for rank in range(3):
        assert before[rank] + after[rank] == through[rank]
    assert through[0] == through[1]


@pytest.mark.parametrize("options", [FORCED, ADMITTED], ids=["forced", "admitted"])
def test_without_its_state_a_resumed_run_differs(tmp_path, options):
    on_ranks(2, run_and_stop, options, tmp_path)
    with_state = on_ranks(2, resume, options, tmp_path)
    without = on_ranks(2, resume, options, tmp_path, with_fabric=False)
    assert with_state[0][-1] != without[0][-1]


def resume_with_other_ranks(folder: Path) -> tuple[list[str], str, list[str], int, list[float]]:
    """Warnings, the notice, digests, the number of residuals after loading, losses."""
    job = Job(**FORCED)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        job.load(folder, rank=0)
    memory = len(job.fabric.state_dict()["memory"])
    records = Records(job.fabric)
    digests = job.train(100)
    losses = [step["loss"] for step in records.of("step")]
    notice = job.fabric.summary().last_warning
    job.fabric.close()
    return [str(w.message) for w in caught], notice, digests, memory, losses


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_job_of_another_size_resumes_with_a_warning_about_lost_state(tmp_path, ranks):
    on_ranks(3, run_and_stop, FORCED, tmp_path)
    results = on_ranks(ranks, resume_with_other_ranks, tmp_path)
    for messages, notice, digests, memory, losses in results:
        assert len(messages) == 1
        assert f"the state is from ddp on 3 ranks and this job is ddp on {ranks} ranks" in messages[0]
        assert "error feedback" in messages[0] and "is reset" in messages[0]
        assert notice and notice in messages[0]
        assert memory == 0
        assert digests == results[0][2]
        assert sum(losses[-10:]) < 0.8 * sum(losses[1:11])


def corrupted(kind: str, state: dict) -> object:
    memory = state["memory"][0]
    match kind:
        case "rank":
            states = [None] * dist.get_world_size()
            dist.all_gather_object(states, state)
            return states[dist.get_rank() - 1]
        case "profile":
            state["profile"] = state["profile"].replace("waterfill:3+ef", "waterfill:4+ef")
        case "version":
            state["version"] = 99
        case "nonsense":
            return {"model": 1}
        case "no memory":
            del state["memory"]
        case "cut":
            state["state"] = state["state"][:40]
        case "parameter":
            memory["parameter"] = "no.such.weight"
        case "size":
            memory["values"] = memory["values"][:5]
        case "no values":
            del memory["values"]
    return state


def try_to_load(kind: str) -> str:
    """The message of the exception."""
    job = Job(**FORCED)
    job.train(3)
    state = corrupted(kind, job.fabric.state_dict())
    if kind != "late":
        job.fabric.close()
        job = Job(**FORCED)
    step = job.fabric.step
    try:
        with pytest.raises((ValueError, RuntimeError)) as caught:
            job.fabric.load_state_dict(state)
        assert job.fabric.step == step
    finally:
        job.fabric.close()
    return str(caught.value)


@pytest.mark.parametrize(("kind", "words"), [
    ("rank", "rank {rank} received the state of rank {other}; every rank saves and loads its own"),
    ("profile", "the state was saved with another profile; attach with that profile, or do not load"),
    ("version", "the state has version 99, this build reads version 1"),
    ("nonsense", "not a Fabric state_dict"),
    ("no memory", "the state has no memory"),
    ("cut", "not a Fabric state: "),
    ("parameter", "the state is from another model: it contains no.such.weight"),
    ("size", "the state is from another model: it contains 5 values of "),
    ("no values", "the memory of the state has no values"),
    ("late", "the fabric has already run 3 steps; load the state into a new one"),
])
def test_an_unsuitable_state_is_rejected(kind, words):
    for rank, message in enumerate(on_ranks(2, try_to_load, kind)):
        assert words.format(rank=rank, other=1 - rank) in message


def load_on_some_ranks(which: str) -> tuple[str, float]:
    """The message of the exception that the first backward raises, and the seconds until then."""
    model = wrap(make())
    with nf.attach(model, profile=profile({"second": "waterfill:4", "rest": "fp32"})) as fabric:
        for _, batch in zip(range(3), batches()):
            loss_of(model, batch).backward()
        states = [fabric.state_dict()]
        loss_of(model, next(batches())).backward()
        states.append(fabric.state_dict())
    model = wrap(make())
    fabric = nf.attach(model, profile=profile({"second": "waterfill:4", "rest": "fp32"}), timeout=30)
    if which == "other" or dist.get_rank() == 0:
        fabric.load_state_dict(states[dist.get_rank()])
    begin = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        loss_of(model, next(batches())).backward()
    waited = time.monotonic() - begin
    fabric.close()
    return str(caught.value), waited


@pytest.mark.parametrize(("which", "words"), [
    ("some", "rank 0 has step 3, rank 1 has 0: load the states of one checkpoint on all ranks"),
    ("other", "rank 0 has step 3, rank 1 has 4: load the states of one checkpoint on all ranks"),
])
def test_if_only_some_ranks_load_a_state_the_first_backward_raises(which, words):
    for message, waited in on_ranks(2, load_on_some_ranks, which, fresh=True):
        assert words in message
        assert waited < 15
