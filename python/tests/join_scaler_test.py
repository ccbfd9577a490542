"""join() with a GradScaler: a rank without data runs no forward pass, so it does not see the loss scale."""

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from small_job import batches, digest, loss_of, make, sgd, wrap

BATCHES = (3, 12)  # of the first and the last rank


def train(route: str, attached: bool = True) -> tuple[str, float]:
    """The weights after the join, and the scale of the last rank."""
    model = make()
    ddp, optimizer = wrap(model), sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024, growth_interval=2)
    fabric = nf.attach(ddp, route=route, scaler=scaler) if attached else None
    is_last = dist.get_rank() == dist.get_world_size() - 1
    with ddp.join():
        for _, batch in zip(range(BATCHES[is_last]), batches()):
            optimizer.zero_grad()
            scaler.scale(loss_of(ddp, batch)).backward()
            scaler.step(optimizer)
            scaler.update()
    if fabric is not None:
        fabric.close()
    return digest(model), scaler.get_scale()


@pytest.mark.parametrize("route", ["waterfill:4", "waterfill:3+ef", "g_binary+ef", "powersgd:2"])
def test_a_joined_rank_takes_the_loss_scale_of_the_others(route):
    results = on_ranks(3, train, route)
    assert len({weights for weights, _ in results}) == 1
    assert [scale for _, scale in results] == [2048, 2048, 65536]


def test_at_full_precision_the_bits_are_those_of_plain_ddp():
    assert on_ranks(2, train, "fp32") == on_ranks(2, train, "", attached=False)


class Counted(torch.amp.GradScaler):
    reads = 0

    def get_scale(self) -> float:
        self.reads += 1
        return super().get_scale()


def accumulate() -> tuple[int, int]:
    model = wrap(make())
    scaler = Counted("cpu")
    with nf.attach(model, route="waterfill:4", scaler=scaler) as fabric:
        data = batches()
        for _ in range(3):
            with model.no_sync():
                for _ in range(3):
                    scaler.scale(loss_of(model, next(data))).backward()
            scaler.scale(loss_of(model, next(data))).backward()
        return scaler.reads, fabric.step


def test_the_scale_is_read_once_per_step_not_once_per_micro_batch():
    assert on_ranks(2, accumulate) == [(3, 3), (3, 3)]
