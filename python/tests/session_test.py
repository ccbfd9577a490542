"""The session of an attached model: its timeout, its reducer, and its release when the model is dropped."""

import gc
import threading
import time
import weakref
from datetime import timedelta

import neuron_fabric as nf
import pytest
import torch.distributed as dist
from neuron_fabric import running, session
from neuron_fabric.ranks.rendezvous import AttachError
from neuron_fabric.session import _timeout_of
from neuron_fabric.telemetry import Reader
from ranks import on_ranks
from small_job import batches, loss_of, make, wrap

STEPS = 5


def timeout_of_a_group(backend: str) -> float:
    group = dist.new_group(backend=backend, timeout=timedelta(seconds=60))
    seconds = _timeout_of(group)
    dist.destroy_process_group(group)
    return seconds


@pytest.mark.parametrize("backend", ["gloo", "cuda:gloo"])
def test_the_timeout_is_that_of_the_group_for_any_devices(backend):
    """A group over NCCL has no backend for the CPU, nor has a Gloo group for CUDA only."""
    assert on_ranks(2, timeout_of_a_group, backend) == [60, 60]


def on_its_own_host() -> str:
    real = session.host_id
    session.host_id = lambda: f"{real()}, as rank {dist.get_rank()} sees it"
    try:
        with pytest.raises(AttachError) as rejected:
            nf.attach(wrap(make()), route="g_binary", reducer="cxl")
    finally:
        session.host_id = real
    return str(rejected.value)


def test_a_reducer_in_shared_memory_is_rejected_on_two_hosts():
    for words in on_ranks(2, on_its_own_host):
        assert "rank 0 and rank 1 differ in the host, but reducer='cxl' needs" in words
        assert "/dev/shm" in words


def on_any_host() -> str:
    real = session.host_id
    session.host_id = lambda: f"rank {dist.get_rank()}"
    try:
        nf.attach(wrap(make()), route="g_binary").close()
    finally:
        session.host_id = real
    return real()


def test_other_reducers_work_on_several_hosts():
    first, second = on_ranks(2, on_any_host)
    assert first == second
    assert first.startswith("boot ")


class Keeper(Reader):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_closed = False

    def write(self, record: dict) -> None:
        self.events.append(record["event"])

    def close(self) -> None:
        self.is_closed = True


def telemetry_threads() -> int:
    return sum(thread.name == "nf-telemetry" for thread in threading.enumerate())


def train(model, steps: int = STEPS) -> None:
    for _, batch in zip(range(steps), batches()):
        loss_of(model, batch).backward()


def attached(keeper: Keeper) -> tuple:
    model = wrap(make())
    fabric = nf.attach(model, route="waterfill:4", readers=[keeper])
    train(model)
    return model, fabric


def dropped() -> tuple[int, int, bool, list[str]]:
    """Remaining threads and weights of a dropped model, and the records that its reader received."""
    keeper, before = Keeper(), telemetry_threads()
    model, fabric = attached(keeper)
    weights = [weakref.ref(parameter) for parameter in model.parameters()]
    assert telemetry_threads() == before + 1
    del model, fabric
    gc.collect()
    deadline = time.monotonic() + 20
    while telemetry_threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    gc.collect()
    left = sum(weight() is not None for weight in weights)
    return telemetry_threads() - before, left, keeper.is_closed, keeper.events


def test_a_dropped_model_is_freed_after_its_last_records_are_read():
    for threads, weights, is_closed, events in on_ranks(2, dropped):
        assert (threads, weights) == (0, 0)
        assert is_closed
        assert events[0] == "attach" and events[-1] == "detach"
        assert events.count("step") == STEPS


def without_a_fabric() -> list[str]:
    keeper = Keeper()
    model, fabric = attached(keeper)
    held = weakref.ref(fabric._session)
    del fabric
    gc.collect()
    train(model)
    held().close()
    return keeper.events


def test_a_model_trains_on_if_its_fabric_is_dropped():
    for events in on_ranks(2, without_a_fabric):
        assert events.count("step") == 2 * STEPS


class SlowKeeper(Keeper):
    def close(self) -> None:
        time.sleep(1)
        super().close()


def dropped_at_the_end_of_the_process() -> tuple[int, bool]:
    keeper, before = SlowKeeper(), telemetry_threads()
    attached(keeper)
    running._close_all()
    return telemetry_threads() - before, keeper.is_closed


def test_process_exit_waits_for_models_that_are_closing():
    assert on_ranks(2, dropped_at_the_end_of_the_process, fresh=True) == [(0, True), (0, True)]
