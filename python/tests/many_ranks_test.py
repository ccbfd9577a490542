"""The threads of a process do not grow with the number of ranks."""

from pathlib import Path

import neuron_fabric as nf
from ranks import on_ranks
from small_job import batches, digest, loss_of, make, sgd, wrap

STEPS = 20
NAMES = ("nf_waiter", "nf_watch", "nf_worker")


def thread_names() -> list[str]:
    """The names of this process's threads. One that ends meanwhile is left out."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            continue
    return names


def train(topology: str) -> dict:
    """Trains; returns the threads during training, by name, and a hash of the model."""
    model = wrap(make())
    before = len(thread_names())
    with nf.attach(model, route="waterfill:4", topology=topology) as fabric:
        optimizer = sgd(model)
        for _, batch in zip(range(STEPS), batches()):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
        names = thread_names()
        assert fabric.summary()
    return {"grown": len(names) - before, "digest": digest(model)} | \
        {name: names.count(name) for name in NAMES}


def test_threads_do_not_grow_with_the_number_of_ranks():
    ranks = on_ranks(16, train, "direct", fresh=True)
    assert len({rank["digest"] for rank in ranks}) == 1
    for rank in ranks:
        # With a thread per peer, there would be 15 watches, and 30 waiters.
        assert rank["nf_watch"] == 1
        assert rank["nf_worker"] == 1
        assert rank["nf_waiter"] <= 16
        # Gloo has two workers and a loop per group, and the accelerator library may start threads.
        assert rank["grown"] <= 16 + 2 + 8, rank
