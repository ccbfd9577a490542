"""At low bits, all ranks have the same parameters after every step, and the loss decreases."""

import neuron_fabric as nf
import pytest
import torch
from neuron_fabric.settings import TOPOLOGIES
from ranks import on_ranks
from small_job import ROUTES, batches, digest, loss_of, make, sgd, wrap
from training_modes import MODES, OVERFLOW_STEP, Run


def follow(steps: int, dtype: torch.dtype = torch.float32,
           **options: object) -> tuple[list[str], list[float], dict]:
    """Digests and losses of this rank, step by step, and the summary."""
    model = make().to(dtype)
    ddp = wrap(model)
    fabric = nf.attach(ddp, **options)
    optimizer = sgd(model, rate=0.02)
    digests, losses = [], []
    for _, (x, y) in zip(range(steps), batches()):
        optimizer.zero_grad()
        loss = loss_of(ddp, (x.to(dtype), y))
        loss.backward()
        optimizer.step()
        digests.append(digest(model))
        losses.append(loss.item())
    summary = fabric.summary().to_dict()
    fabric.close()
    return digests, losses, summary


def check(results: list[tuple[list[str], list[float], dict]], steps: int) -> None:
    reference = results[0][0]
    assert len(set(reference)) == steps, "the model does not train"
    for rank, (digests, losses, summary) in enumerate(results):
        differing = [step for step in range(steps) if digests[step] != reference[step]]
        assert not differing, f"rank {rank} first differs from rank 0 after step {differing[0]}"
        assert sum(losses[-10:]) < sum(losses[:10])
        assert summary["steps"] == steps
        assert summary["bytes"] < summary["dense_bytes"]


@pytest.mark.parametrize(("ranks", "steps"), [(2, 100), (3, 100), (4, 500)])
def test_replicas_are_equal_after_each_of_many_steps(ranks, steps):
    check(on_ranks(ranks, follow, steps, route="waterfill:4", timeout=240), steps)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("route", ROUTES)
def test_replicas_are_equal_on_every_route(ranks, route):
    check(on_ranks(ranks, follow, 40, route=route), 40)


@pytest.mark.parametrize("topology", [name for name in TOPOLOGIES if name not in ("auto", "hierarchical")])
def test_replicas_are_equal_over_every_topology(topology):
    check(on_ranks(4, follow, 40, route="waterfill:4", topology=topology), 40)


@pytest.mark.parametrize("route", ["waterfill:4", "waterfill:3+ef", "powersgd:2", "waterfill:3+rms"])
def test_replicas_are_equal_in_hierarchical_sums(route):
    options = {"route": route, "topology": "hierarchical", "group_size": 2}
    check(on_ranks(4, follow, 40, **options), 40)


@pytest.mark.parametrize("route", ["waterfill:3+ef", "g_binary", "powersgd:2", "waterfill:3+rms"])
def test_replicas_of_a_bfloat16_model_are_equal(route):
    check(on_ranks(3, follow, 60, dtype=torch.bfloat16, route=route), 60)


def test_replicas_are_equal_while_routes_change():
    """From warm-up to admission, and from one training phase to the next."""
    profile = {
        "format": "neuron_fabric.profile", "version": 1, "name": "phases",
        "regions": [{"name": "first", "names": ["first.*"]}, {"name": "rest"}],
        "phases": [{"from_step": 0, "routes": {"first": "g_binary", "rest": "waterfill:5"}},
                   {"from_step": 20, "routes": {"first": "waterfill:3+ef", "rest": "fp32"}},
                   {"from_step": 40, "routes": {"first": "fp32", "rest": "powersgd:2"}}],
        "health": {"warm_up_steps": 5, "error_budget": 1.0}, "smallest_parameter": 0,
    }
    check(on_ranks(4, follow, 60, profile=profile, admit="safe"), 60)


def in_mode(mode: str) -> Run:
    return MODES[mode](lambda ddp: nf.attach(ddp, route="waterfill:4"))


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "plain"])
def test_replicas_are_equal_in_every_training_mode(mode):
    runs = on_ranks(3, in_mode, mode)
    if mode == "join":  # ranks stop at different steps, and get the parameters of the last rank
        assert len({run.digests[-1] for run in runs}) == 1
        runs = [Run(digests=run.digests[:40], facts=run.facts) for run in runs]
    assert all(run.digests == runs[0].digests for run in runs)
    if mode == "grad_scaler":
        scales = runs[0].facts["scales"]
        assert all(run.facts["scales"] == scales for run in runs)
        assert scales[OVERFLOW_STEP] == scales[OVERFLOW_STEP - 1] / 2
