"""The modes in which DDP models are trained: functions of a callback that attaches a fabric."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from unittest import mock

import neuron_fabric as nf
import torch
import torch.distributed as dist
from small_job import Classifier, batches, digest, loss_of, make, sgd, wrap
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 50
OVERFLOW_STEP = 25

Attach = Callable[[DistributedDataParallel], nf.Fabric | None]


@dataclass
class Run:
    """The results of one rank."""

    digests: list[str] = field(default_factory=list)  # of the parameters, one per step
    steps: int | None = None  # counted by the fabric, if there is one
    bytes_ratio: float | None = None  # sent, relative to plain DDP
    facts: dict[str, object] = field(default_factory=dict)


def finish(run: Run, fabric: nf.Fabric | None) -> Run:
    if fabric is not None:
        run.steps = fabric.step
        run.bytes_ratio = fabric.summary().bytes_ratio
        fabric.close()
    return run


def train(model: nn.Module, ddp: nn.Module, fabric: nf.Fabric | None,
          set_to_none: bool = True) -> Run:
    run, optimizer = Run(), sgd(model)
    for _, batch in zip(range(STEPS), batches()):
        optimizer.zero_grad(set_to_none)
        loss = loss_of(ddp, batch)
        loss.backward()
        if fabric is not None:
            fabric.observe(loss)
        optimizer.step()
        run.digests.append(digest(model))
    return finish(run, fabric)


def plainly(attach: Attach, **options: object) -> Run:
    model = make()
    ddp = wrap(model, **options)
    return train(model, ddp, attach(ddp))


def in_bucket_views(attach: Attach) -> Run:
    """Gradients are views of the buckets, and DDP scales them in place."""
    model = make()
    ddp = wrap(model, gradient_as_bucket_view=True)
    return train(model, ddp, attach(ddp), set_to_none=False)


def accumulating(attach: Attach) -> Run:
    model = make()
    ddp = wrap(model)
    run, fabric, optimizer, draw = Run(), attach(ddp), sgd(model), batches()
    for _ in range(STEPS):
        optimizer.zero_grad()
        for part in range(3):
            with ddp.no_sync() if part < 2 else nullcontext():
                loss_of(ddp, next(draw)).backward()
        optimizer.step()
        run.digests.append(digest(model))
    return finish(run, fabric)


def with_scaler(attach: Attach) -> Run:
    """FP16 under autocast; in one step, one rank's loss is so large that its gradients overflow."""
    model = make()
    ddp = wrap(model)
    run, fabric, optimizer = Run(), attach(ddp), sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    scales = []
    for step, (x, y) in zip(range(STEPS), batches()):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.cross_entropy(ddp(x), y)
        if step == OVERFLOW_STEP and dist.get_rank() == 1:
            loss = 1000 * loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        run.digests.append(digest(model))
        scales.append(scaler.get_scale())
    run.facts["scales"] = scales
    return finish(run, fabric)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = Classifier()
        self.branches = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: torch.Tensor, branch: int) -> torch.Tensor:
        y = self.trunk(x)
        return self.branches[branch](y) if branch < 2 else y


def with_unused_branches(attach: Attach) -> Run:
    """In turn, all ranks use the same branch, each rank another, and no rank any."""
    model = make(Branches)
    ddp = wrap(model, find_unused_parameters=True)
    run, fabric, optimizer = Run(), attach(ddp), sgd(model)
    for step, (x, y) in zip(range(STEPS), batches()):
        branch = {0: 0, 1: (step + dist.get_rank()) % 2, 2: 1, 3: 2}[step % 4]
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(x, branch), y).backward()
        optimizer.step()
        run.digests.append(digest(model))
    return finish(run, fabric)


class UsedTwice(nn.Module):
    """A layer that is used twice and one that is never used, which need a static graph."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.shared, self.never = Classifier(), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shared(torch.relu(self.shared(self.body(x))))


def with_static_graph(attach: Attach) -> Run:
    model = make(UsedTwice)
    ddp = wrap(model, static_graph=True)
    return train(model, ddp, attach(ddp))


def compiled(attach: Attach) -> Run:
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    model = make()
    ddp = wrap(model)
    backend = CompileCounterWithBackend("aot_eager")
    program = torch.compile(ddp, backend=backend)
    # DDPOptimizer accepts no buckets below the default size of the first one.
    with mock.patch.object(dist, "_DEFAULT_FIRST_BUCKET_BYTES", ddp.bucket_bytes_cap):
        run = train(model, program, attach(program))
    run.facts["graphs"] = len(backend.graphs)
    return run


def with_uneven_inputs(attach: Attach) -> Run:
    """Rank 0 has the fewest batches; it waits for the others in join()."""
    model = make()
    ddp = wrap(model)
    run, fabric, optimizer = Run(), attach(ddp), sgd(model)
    last = dist.get_rank() == dist.get_world_size() - 1
    with ddp.join():
        for _, batch in zip(range(STEPS if last else 40 + dist.get_rank()), batches()):
            optimizer.zero_grad()
            loss_of(ddp, batch).backward()
            optimizer.step()
            run.digests.append(digest(model))
    run.digests.append(digest(model))
    return finish(run, fabric)


def two_models(attach: Attach) -> Run:
    """One backward pass through both models, then one through the second only."""
    first, second = make(seed=1), make(seed=2)
    ddps = [wrap(first), wrap(second)]
    fabrics = [attach(ddp) for ddp in ddps]
    run, optimizers = Run(), [sgd(first), sgd(second)]
    for _, (x, y) in zip(range(STEPS), batches()):
        for optimizer in optimizers:
            optimizer.zero_grad()
        features = torch.cat([ddps[0](x)] * 4, dim=1)
        nn.functional.cross_entropy(ddps[1](features), y).backward()
        for optimizer in optimizers:
            optimizer.step()
        optimizers[1].zero_grad()
        loss_of(ddps[1], (x, y)).backward()
        optimizers[1].step()
        run.digests.append(digest(first) + digest(second))
    if fabrics[1] is not None:
        assert fabrics[1].step == 2 * STEPS
        fabrics[1].close()
    return finish(run, fabrics[0])


def in_bfloat16(attach: Attach) -> Run:
    model = make().to(torch.bfloat16)
    ddp = wrap(model)
    run, fabric, optimizer = Run(), attach(ddp), sgd(model)
    for _, (x, y) in zip(range(STEPS), batches()):
        optimizer.zero_grad()
        loss_of(ddp, (x.to(torch.bfloat16), y)).backward()
        optimizer.step()
        run.digests.append(digest(model))
    return finish(run, fabric)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(2, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images = x.view(-1, 2, 4, 4).contiguous(memory_format=torch.channels_last)
        return self.convolutions(images).flatten(1)


def channels_last(attach: Attach) -> Run:
    model = make(Convolutions).to(memory_format=torch.channels_last)
    ddp = wrap(model, bucket_cap_mb=0.001)
    return train(model, ddp, attach(ddp))


MODES: dict[str, Callable[[Attach], Run]] = {
    "plain": plainly,
    "no_sync": accumulating,
    "grad_scaler": with_scaler,
    "find_unused_parameters": with_unused_branches,
    "static_graph": with_static_graph,
    "gradient_as_bucket_view": in_bucket_views,
    "compile": compiled,
    "join": with_uneven_inputs,
    "two_models": two_models,
    "bfloat16": in_bfloat16,
    "channels_last": channels_last,
    "one_bucket": lambda attach: plainly(attach, bucket_cap_mb=25),
    "many_buckets": lambda attach: plainly(attach, bucket_cap_mb=0.001),
}
