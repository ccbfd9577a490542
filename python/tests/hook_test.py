"""nf.hook, registered like any Python hook, has the bits of nf.attach()."""

import os
from unittest import mock

import neuron_fabric as nf
import pytest
import torch.distributed as dist
from ranks import on_ranks
from small_job import batches, loss_of, make, profile, wrap
from torch.nn.parallel import DistributedDataParallel
from training_modes import MODES, STEPS, Attach, Run, train

ADMITTED = {"profile": profile({"second": "waterfill:3+ef", "rest": "waterfill:5"},
                               health={"warm_up_steps": 10, "error_budget": 0.5}), "admit": "safe"}


def registered(**options: object) -> Attach:
    def attach(model: DistributedDataParallel) -> nf.Fabric:
        ddp = getattr(model, "_orig_mod", model)
        state = nf.HookState(ddp.module, **options)
        ddp.register_comm_hook(state, nf.hook)
        return state.fabric

    return attach


def attached(**options: object) -> Attach:
    return lambda model: nf.attach(model, **options)


def both_ways(mode: str, options: dict) -> tuple[Run, Run]:
    return MODES[mode](attached(**options)), MODES[mode](registered(**options))


@pytest.mark.parametrize("mode", MODES)
def test_the_hook_has_the_bits_of_attach_in_every_mode(mode):
    for attach, hook in on_ranks(2, both_ways, mode, {"route": "waterfill:4"}):
        assert hook == attach


@pytest.mark.parametrize("options", [{"route": "fp32"}, {"route": "waterfill:3+ef"}, ADMITTED],
                         ids=["fp32", "forced", "admitted"])
def test_the_hook_has_the_bits_of_attach_on_every_kind_of_route(options):
    for attach, hook in on_ranks(3, both_ways, "plain", options):
        assert hook == attach


def begin_with_the_first_bucket(environment: dict[str, str]) -> tuple[Run, Run, int]:
    with mock.patch.dict(os.environ, environment):
        model = make()
        ddp = wrap(model)
        state = nf.HookState(model, route="waterfill:4")
        ddp.register_comm_hook(state, nf.hook)
        ours = train(model, ddp, None)
        steps = state.fabric.step
        state.fabric.close()
        return MODES["plain"](attached(route="waterfill:4")), ours, steps


@pytest.mark.parametrize(("mode", "steps"), [("on", STEPS), ("shadow", STEPS), ("off", 0)])
def test_the_hook_begins_with_the_first_bucket(mode, steps):
    for attach, hook, counted in on_ranks(2, begin_with_the_first_bucket, {"NF_MODE": mode}):
        assert hook.digests == attach.digests
        assert counted == steps


def options_that_are_wrong() -> str:
    with pytest.raises(ValueError) as caught:
        nf.HookState(make(), admit="fast")
    return str(caught.value)


def test_the_options_are_checked_when_the_state_is_made():
    for message in on_ranks(2, options_that_are_wrong):
        assert message == "admit must be one of useful, safe, not 'fast'"


def test_a_scaler_in_the_options_raises_an_error_that_names_the_right_place():
    with pytest.raises(TypeError, match=r"no scaler: call state\.fabric\.set_loss_scale"):
        nf.HookState(make(), scaler=object())


def modes_that_differ() -> str:
    modes = {"NF_MODE": "off" if dist.get_rank() == 1 else "on"}
    with mock.patch.dict(os.environ, modes):
        ddp = wrap(make())
        ddp.register_comm_hook(nf.HookState(ddp.module, route="fp32"), nf.hook)
        with pytest.raises(RuntimeError) as caught:
            loss_of(ddp, next(batches())).backward()
    return str(caught.value)


def test_differing_ranks_are_reported_in_the_first_backward_pass():
    for message in on_ranks(2, modes_that_differ, fresh=True):
        assert "rank 0 and rank 1 differ in NF_MODE: on and off" in message
