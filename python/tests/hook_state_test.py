"""A HookState works only with the model that it was made for, and has the checks of attach()."""

import neuron_fabric as nf
import pytest
from ranks import on_ranks
from small_job import batches, loss_of, make, wrap


def join_with_another_divisor(of_wrapper: bool) -> str:
    ddp = wrap(make())
    state = nf.HookState(ddp if of_wrapper else ddp.module, route="waterfill:4")
    ddp.register_comm_hook(state, nf.hook)
    loss_of(ddp, next(batches())).backward()
    with pytest.raises(RuntimeError) as caught, ddp.join(divide_by_initial_world_size=False):
        pass
    state.fabric.close()
    return str(caught.value)


@pytest.mark.parametrize("of_wrapper", [True, False])
def test_join_with_another_divisor_is_rejected(of_wrapper):
    for message in on_ranks(2, join_with_another_divisor, of_wrapper):
        assert message.startswith("join(divide_by_initial_world_size=False) is not supported: ")


def with_a_state_of_another_module() -> str:
    ddp = wrap(make())
    ddp.register_comm_hook(nf.HookState(make(seed=1), route="waterfill:4"), nf.hook)
    with pytest.raises(RuntimeError) as caught:
        loss_of(ddp, next(batches())).backward()
    return str(caught.value)


def two_models_with_one_state() -> str:
    first, second = wrap(make()), wrap(make(seed=1))
    state = nf.HookState(first.module, route="waterfill:4")
    for ddp in (first, second):
        ddp.register_comm_hook(state, nf.hook)
    loss_of(first, next(batches())).backward()
    with pytest.raises(RuntimeError) as caught:
        loss_of(second, next(batches())).backward()
    state.fabric.close()
    return str(caught.value)


@pytest.mark.parametrize("wrong", [with_a_state_of_another_module, two_models_with_one_state])
def test_a_model_of_another_state_is_rejected_before_anything_is_sent(wrong):
    for message in on_ranks(2, wrong, fresh=True):
        assert "this nf.HookState was made for a Classifier without the parameter of shape (" in message
        assert "make one state per model" in message
