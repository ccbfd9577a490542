"""FSDP2: if a rank dies or stops, the other ranks end with an error; a model can return to FSDP alone."""

import re
import signal

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from fsdp_job import Mesh, batches, digest, loss_of, make, shards_of
from ranks import on_ranks
from torch import nn
from workers.job import Job

FSDP2, HSDP, REPLICATE = Mesh(0, 2), Mesh(2, 2), Mesh(2, 0)
MESHES = pytest.mark.parametrize("mesh", [FSDP2, HSDP, REPLICATE], ids=str)
TIMEOUT = "7"  # seconds; also enough for the rendezvous and attach() on a loaded machine
ROUTE = {"route": "waterfill:4"}


def job_of(mesh: Mesh, route: str, *arguments: str) -> Job:
    return Job(mesh.ranks, "train_fsdp.py", str(mesh.replicas), str(mesh.shards), "--within", mesh.within,
               "--route", route, *arguments)


def check_others(job: Job, words: str) -> None:
    """All ranks but the last one raise: in the runtime, which names a rank of its job, or in a collective of FSDP
    itself, which does not name the rank. A rank that waits for both of them may name one that has just raised."""
    for end in job.join(list(range(job.ranks - 1))):
        end.check_clean()
        assert end.code == 1, f"rank {end.rank}: exit code {end.code}\n{end.errors}"
        assert re.search(words, end.event("raised")["message"]), end.event("raised")["message"]


@pytest.mark.parametrize(("mesh", "route"), [
    (Mesh(0, 3), "waterfill:4"), (Mesh(0, 3), "fp32"), (HSDP, "waterfill:4"),
    (Mesh(2, 2, "low_bit"), "waterfill:4")], ids=str)
def test_no_rank_waits_for_a_killed_rank(mesh, route):
    with job_of(mesh, route) as job:
        job.wait_for("ready")
        job.signal(mesh.ranks - 1, signal.SIGKILL)
        check_others(job, r"^neuron_fabric: .*rank \d (is gone|aborted)|[Cc]onnection (closed|reset)")


@MESHES
def test_no_rank_waits_for_a_rank_whose_code_failed(mesh):
    with job_of(mesh, "waterfill:4", "--throws") as job:
        check_others(job, r"^neuron_fabric: .*rank \d (is gone|aborted)|[Cc]onnection (closed|reset)")
        [end] = job.join([mesh.ranks - 1])
    end.check_clean()
    assert "KeyError: 'no such sample'" in end.errors


@pytest.mark.parametrize("route", ["waterfill:4", "fp32"])
def test_a_killed_replica_is_named_on_all_others(route):
    with job_of(Mesh(3, 0), route) as job:
        job.wait_for("ready")
        job.signal(2, signal.SIGKILL)
        for end in job.join([0, 1]):
            end.check_clean()
            assert "rank 2 is gone" in end.event("raised")["message"]


@pytest.mark.parametrize(("mesh", "route"), [
    (Mesh(0, 3), "fp32"), (HSDP, "waterfill:4")], ids=str)
def test_no_rank_waits_longer_than_the_timeout_for_a_stopped_rank(mesh, route):
    with job_of(mesh, route, "--timeout", TIMEOUT) as job:
        job.wait_for("ready")
        job.signal(mesh.ranks - 1, signal.SIGSTOP)
        check_others(job, r"^neuron_fabric: .*(waited \d+ s for (statistics from )?rank \d|rank \d (is gone|aborted))|[Tt]imed out|"
                          r"[Cc]onnection (closed|reset)")


def trained(model: nn.Module, steps: range) -> list[str]:
    """The bits of this rank's shards after each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    digests = []
    for step in steps:
        loss_of(model, next(batches(step))).backward()
        optimizer.step()
        optimizer.zero_grad()
        digests.append(digest(shards_of(model)))
    return digests


def in_mode(mesh: Mesh, mode: str) -> tuple[list[str], list[str], list[bool], int]:
    """Bits of FSDP alone and in this mode; whether a step was sound, and one with NaN on rank 0; counted steps."""
    plain = trained(make(mesh), range(3))
    model = make(mesh)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NF_MODE", mode)
        fabric = nf.attach(model, **ROUTE)
    digests = trained(model, range(3))
    known = [fabric.should_step()]
    loss_of(model, next(batches())).mul(float("nan") if dist.get_rank() == 0 else 1).backward()
    known.append(fabric.should_step())
    fabric.close()
    return plain, digests, known, fabric.step


@MESHES
@pytest.mark.parametrize(("mode", "steps"), [("off", 0), ("shadow", 4)])
def test_off_and_shadow_have_the_bits_of_fsdp_alone(mesh, mode, steps):
    for plain, digests, known, counted in on_ranks(mesh.ranks, in_mode, mesh, mode):
        assert digests == plain
        assert len(set(plain)) == 3
        assert counted == steps
        assert known == [True, False]


def detached(mesh: Mesh) -> tuple[list[str], list[str], bool]:
    """Bits after detach(), those of FSDP alone from the same parameters, and whether low bits were used before."""
    model, plain, other = make(mesh), make(mesh), make(mesh)
    with mesh.attach(model, **ROUTE) as fabric:
        low = trained(model, range(2))
        fabric.detach()
        plain.load_state_dict(model.state_dict())
        ours = trained(model, range(2, 5))
    return ours, trained(plain, range(2, 5)), low != trained(other, range(2))


@pytest.mark.parametrize("mesh", [FSDP2, HSDP, REPLICATE, Mesh(2, 2, "low_bit")], ids=str)
def test_detach_returns_to_fsdp_alone(mesh):
    for ours, plain, was_low in on_ranks(mesh.ranks, detached, mesh):
        assert ours == plain
        assert was_low


def after_close(mesh: Mesh) -> str:
    model = make(mesh)
    mesh.attach(model, **ROUTE).close()
    with pytest.raises(RuntimeError) as caught:
        loss_of(model, next(batches())).backward()
    return str(caught.value)


@MESHES
def test_a_step_after_close_is_an_error(mesh):
    for message in on_ranks(mesh.ranks, after_close, mesh, fresh=True):
        assert message.endswith("the fabric has been closed")


def after_an_exception_in_backward(mesh: Mesh) -> str:
    """The error of the next forward pass."""
    def fail(_gradient: torch.Tensor) -> None:
        raise ArithmeticError("user code")

    model = make(mesh)
    with mesh.attach(model, **ROUTE):
        batch = next(batches())
        handle = model.embed.register_forward_hook(lambda _module, _inputs, output: output.register_hook(fail) and None)
        with pytest.raises(ArithmeticError):
            loss_of(model, batch).backward()
        handle.remove()
        with pytest.raises(RuntimeError) as caught:
            loss_of(model, batch)
    return str(caught.value)


@MESHES
def test_a_step_after_an_exception_in_backward_is_an_error(mesh):
    """Some gradients have been reduced, others not."""
    for message in on_ranks(mesh.ranks, after_an_exception_in_backward, mesh, fresh=True):
        assert message.startswith("neuron_fabric: the last backward pass ended with an exception, and its gradients "
                                  "are incomplete")


def over(mesh: Mesh, reducer: str) -> list[str]:
    model = make(mesh)
    with mesh.attach(model, route="g_binary", reducer=reducer, topology="ring"):
        return trained(model, range(2))


@pytest.mark.parametrize("mesh", [REPLICATE, Mesh(2, 2, "low_bit")], ids=str)
def test_a_memory_side_reducer_does_not_change_the_bits(mesh):
    """It reduces between replicas; reduce-scatters within a replica stay between ranks."""
    assert on_ranks(mesh.ranks, over, mesh, "cxl") == on_ranks(mesh.ranks, over, mesh, "ranks")
