"""An attached model can be copied, saved, dropped and wrapped again, as any DDP model."""

import copy
import gc
import io
import weakref
from collections.abc import Callable

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from small_job import batches, digest, loss_of, make, sgd, wrap
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


def attach(model: DistributedDataParallel) -> nf.Fabric:
    return nf.attach(model, route="waterfill:4")


def attach_with_scaler(model: DistributedDataParallel) -> nf.Fabric:
    return nf.attach(model, route="waterfill:4", scaler=torch.amp.GradScaler("cpu"))


def train(model: nn.Module, steps: int = STEPS) -> str:
    optimizer = sgd(model)
    for _, batch in zip(range(steps), batches()):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    return digest(model)


def saved_and_loaded(model: DistributedDataParallel) -> DistributedDataParallel:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def copied(attach: Callable, make_copy: Callable) -> tuple[type, str, str, int]:
    """The class of the copy, its weights after training, those of plain DDP, and the steps that the
    fabric counted while both models trained."""
    plain = train(wrap(make()), 2 * STEPS)
    model = wrap(make())
    with attach(model) as fabric:
        other = make_copy(model)
        with other.join(divide_by_initial_world_size=False):
            pass  # allowed for a plain model
        trained = train(other, 2 * STEPS)
        train(model)
        return type(other), trained, plain, fabric.step


@pytest.mark.parametrize("attach", [attach, attach_with_scaler])
@pytest.mark.parametrize("make_copy", [copy.deepcopy, saved_and_loaded])
def test_a_copy_is_a_plain_model(attach, make_copy):
    for kind, trained, plain, steps in on_ranks(2, copied, attach, make_copy):
        assert kind is DistributedDataParallel
        assert trained == plain
        assert steps == STEPS


def dropped_without_a_collection(attach: Callable) -> list[bool]:
    gc.collect()
    gc.disable()
    try:
        model = wrap(make())
        fabric = attach(model)
        train(model)
        held = [weakref.ref(model), weakref.ref(model.module)]
        fabric.close()
        del model, fabric
        return [one() is not None for one in held]
    finally:
        gc.enable()


@pytest.mark.parametrize("attach", [attach, attach_with_scaler])
def test_a_model_is_freed_without_garbage_collection(attach):
    assert on_ranks(2, dropped_without_a_collection, attach) == 2 * [[False, False]]


class Interrupted(Exception):
    pass


def interrupted_and_wrapped_again() -> tuple[int, str]:
    module = make()

    def interrupt(_gradient: torch.Tensor) -> None:
        raise Interrupted

    def first() -> None:
        model = wrap(module)
        attach(model)
        train(model, 2)
        handle = module.second.weight.register_hook(interrupt)
        try:
            loss_of(model, next(batches())).backward()
        except Interrupted:
            handle.remove()
        else:
            raise AssertionError("backward was not interrupted")

    first()
    module.zero_grad()
    model = wrap(module)
    with attach(model) as fabric:
        return fabric.step if train(model) is None else fabric.step, digest(model)


def test_after_an_interrupted_backward_the_module_can_be_wrapped_again():
    results = on_ranks(2, interrupted_and_wrapped_again)
    assert [steps for steps, _ in results] == [STEPS, STEPS]
    assert len({weights for _, weights in results}) == 1


def shown_and_closed() -> tuple[str, str]:
    model = wrap(make())
    with attach(model) as fabric:
        train(model)
        shown = repr(fabric)
    with pytest.raises(RuntimeError) as caught:
        loss_of(model, next(batches())).backward()
    return shown, str(caught.value)


def test_a_fabric_has_a_repr_and_is_closed_by_its_with_block():
    for rank, (shown, after) in enumerate(on_ranks(2, shown_and_closed)):
        assert shown == (f"<neuron_fabric.Fabric: 8 parameters, rank {rank} of 2, step {STEPS}, direct on "
                         "host>")
        assert "the fabric has been closed" in after


def traced() -> set[str]:
    model = wrap(make())
    with attach(model):
        with torch.profiler.profile() as trace:
            train(model, 1)
            dist.barrier()
        return {event.name for event in trace.events() if event.name.startswith("neuron_fabric")}


def test_profiler_traces_contain_the_ranges_of_the_hook():
    for names in on_ranks(2, traced):
        assert names == {"neuron_fabric::bucket", "neuron_fabric::sum_low_bit"}
