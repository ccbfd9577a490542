"""Wrappers and techniques that training jobs combine with DDP: each trains under attach() as under
plain DDP, or is rejected with an error that names the reason (docs/runtime.md has the table)."""

import copy
from collections.abc import Callable
from unittest import mock

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from small_job import CLASSES, Classifier, batches, digest, loss_of, make, sgd, wrap
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.optim import ZeroRedundancyOptimizer, _apply_optimizer_in_backward
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint
from training_modes import Attach, Run, finish

STEPS = 12
WORDS = 40


def step_by_step(model: nn.Module, ddp: nn.Module, fabric: nf.Fabric | None,
                 optimizer: torch.optim.Optimizer, after_step: Callable[[], None] = lambda: None,
                 ) -> Run:
    run = Run()
    for _, batch in zip(range(STEPS), batches()):
        optimizer.zero_grad()
        loss_of(ddp, batch).backward()
        optimizer.step()
        after_step()
        run.digests.append(digest(model))
    return finish(run, fabric)


def with_sharded_optimizer(attach: Attach) -> Run:
    model = make()
    ddp = wrap(model)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    run = step_by_step(model, ddp, attach(ddp), optimizer)
    names = {parameter: name for name, parameter in model.named_parameters()}
    run.facts["owned"] = sorted(names[parameter] for parameter in optimizer.optim.state)
    return run


def with_whole_optimizer(attach: Attach) -> Run:
    model = make()
    ddp = wrap(model)
    return step_by_step(model, ddp, attach(ddp), torch.optim.Adam(model.parameters(), lr=0.01))


class TiedEmbeddings(nn.Module):
    """One matrix that embeds words and predicts them."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.body = nn.Linear(width, width)
        self.predict = nn.Linear(width, WORDS, bias=False)
        self.predict.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = (x.abs() * 10).long() % WORDS
        return self.predict(torch.relu(self.body(self.embed(words).mean(1))))[:, :CLASSES]


def with_tied_embeddings(attach: Attach) -> Run:
    model = make(TiedEmbeddings)
    ddp = wrap(model)
    return step_by_step(model, ddp, attach(ddp), sgd(model))


class Checkpointed(Classifier):
    reentrant = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(torch.relu(self.first(x)))
        hidden = checkpoint(self.second, hidden, use_reentrant=self.reentrant)
        return self.head(torch.relu(hidden))


class ReentrantCheckpointed(Checkpointed):
    reentrant = True


def with_checkpointing(attach: Attach) -> Run:
    model = make(Checkpointed)
    ddp = wrap(model)
    return step_by_step(model, ddp, attach(ddp), sgd(model))


def with_reentrant_checkpointing(attach: Attach) -> Run:
    model = make(ReentrantCheckpointed)
    ddp = wrap(model, static_graph=True)
    return step_by_step(model, ddp, attach(ddp), sgd(model))


def with_averaged_copy(attach: Attach) -> Run:
    """An averaged copy of the attached model."""
    model = make()
    ddp = wrap(model)
    fabric = attach(ddp)
    average = AveragedModel(ddp.module, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    run = step_by_step(model, ddp, fabric, sgd(model),
                       lambda: average.update_parameters(ddp.module))
    run.facts["average"] = digest(average)
    assert run.facts["average"] != run.digests[-1], "the copy does not lag behind"
    return run


def compiled_inside(attach: Attach) -> Run:
    """DDP(torch.compile(model)), instead of torch.compile(DDP(model))."""
    torch._dynamo.reset()
    model = make()
    ddp = wrap(torch.compile(model, backend="aot_eager"))
    # DDPOptimizer accepts no buckets below the default size of the first one.
    with mock.patch.object(dist, "_DEFAULT_FIRST_BUCKET_BYTES", ddp.bucket_bytes_cap):
        return step_by_step(model, ddp, attach(ddp), sgd(model))


def with_frozen_layers(attach: Attach) -> Run:
    """Frozen before DDP wraps the model, as fine-tuning does."""
    model = make()
    model.first.requires_grad_(False)
    frozen = copy.deepcopy(model.first)
    ddp = wrap(model)
    run = step_by_step(model, ddp, attach(ddp), sgd(model))
    assert torch.equal(model.first.weight, frozen.weight)
    return run


def in_float16(attach: Attach) -> Run:
    model = make().to(torch.float16)
    ddp = wrap(model)
    run, fabric, optimizer = Run(), attach(ddp), sgd(model)
    for _, (x, y) in zip(range(STEPS), batches()):
        optimizer.zero_grad()
        loss_of(ddp, (x.to(torch.float16), y)).backward()
        optimizer.step()
        run.digests.append(digest(model))
    return finish(run, fabric)


TECHNIQUES: dict[str, Callable[[Attach], Run]] = {
    "sharded_optimizer": with_sharded_optimizer,
    "tied_embeddings": with_tied_embeddings,
    "checkpointing": with_checkpointing,
    "reentrant_checkpointing": with_reentrant_checkpointing,
    "averaged_copy": with_averaged_copy,
    "compiled_inside": compiled_inside,
    "frozen_layers": with_frozen_layers,
    "float16": in_float16,
}


def both_ways(technique: str, route: str) -> tuple[Run, Run]:
    """Without a fabric, and with one."""
    run = TECHNIQUES[technique]
    return run(lambda _: None), run(lambda ddp: nf.attach(ddp, route=route))


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_dense_routes_train_as_plain_ddp(technique):
    for plain, ours in on_ranks(2, both_ways, technique, "fp32"):
        assert len(set(plain.digests)) == STEPS, "the model does not train"
        assert ours.digests == plain.digests
        assert ours.facts == plain.facts
        assert ours.steps == STEPS


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_replicas_are_equal_at_low_bits(technique):
    (plain, first), (_, second) = on_ranks(2, both_ways, technique, "waterfill:6")
    assert first.digests == second.digests
    assert first.digests != plain.digests, "nothing was sent at low bits"
    assert first.bytes_ratio < (0.5 if technique != "float16" else 0.8)


def both_optimizers() -> tuple[Run, Run]:
    def attach(ddp: nn.Module) -> nf.Fabric:
        return nf.attach(ddp, route="waterfill:6")

    return with_sharded_optimizer(attach), with_whole_optimizer(attach)


def test_a_sharded_optimizer_updates_as_a_whole_one_and_keeps_only_its_shard():
    runs = on_ranks(2, both_optimizers)
    for sharded, whole in runs:
        assert sharded.digests == whole.digests
    first, second = (set(sharded.facts["owned"]) for sharded, _ in runs)
    assert first and second
    assert not first & second
    assert first | second == {name for name, _ in make().named_parameters()}


def in_sub_groups(route: str) -> tuple[list[str], list[str]]:
    """Ranks 0 and 1 train one model, 2 and 3 another. Digests of plain DDP, and of ours."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = dist.get_rank() // 2
    digests = []
    for attached in (False, True):
        model = make(seed=mine)
        ddp = wrap(model, process_group=pairs[mine])
        fabric = nf.attach(ddp, route=route) if attached else None
        digests.append(step_by_step(model, ddp, fabric, sgd(model)).digests)
    return digests[0], digests[1]


@pytest.mark.parametrize("route", ["fp32", "waterfill:6"])
def test_models_of_sub_groups_train_independently(route):
    runs = on_ranks(4, in_sub_groups, route, fresh=True)
    for plain, ours in runs:
        assert (ours == plain) == (route == "fp32")
    for pair in (runs[:2], runs[2:]):
        assert pair[0][1] == pair[1][1]
    assert runs[0][1][-1] != runs[2][1][-1]


def backward_under_compiled_autograd(attached: bool) -> tuple[str, int | None]:
    """The exception that backward raises, and the steps that the fabric counted."""
    torch._dynamo.reset()
    ddp = wrap(make())
    fabric = nf.attach(ddp, route="waterfill:6") if attached else None
    loss = loss_of(ddp, next(batches()))
    compiler = torch.compile(backend="aot_eager")
    with torch._dynamo.compiled_autograd._enable(compiler), \
            pytest.raises(RuntimeError) as caught:
        loss.backward()
    steps = None if fabric is None else fabric.step
    if fabric is not None:
        fabric.close()
    return str(caught.value), steps


def test_compiled_autograd_is_rejected_by_ddp_before_any_reduction():
    plain = on_ranks(2, backward_under_compiled_autograd, False, fresh=True)
    ours = on_ranks(2, backward_under_compiled_autograd, True, fresh=True)
    for (words, _), (same_words, steps) in zip(plain, ours, strict=True):
        assert "Compiled autograd is not compatible with C++ DDP Reducer" in words
        assert same_words == words
        assert steps == 0


def hook_after_attach() -> str:
    """ZeroRedundancyOptimizer(overlap_with_ddp=True) and PostLocalSGDOptimizer need such a hook."""
    ddp = wrap(make())
    fabric = nf.attach(ddp, route="fp32")
    with pytest.raises(RuntimeError) as caught:
        ddp.register_comm_hook(None, allreduce_hook)
    fabric.close()
    return str(caught.value)


def test_ddp_rejects_a_hook_that_is_registered_after_attach():
    for words in on_ranks(2, hook_after_attach, fresh=True):
        assert "can only be called once" in words


class DeepSpeedEngine(nn.Module):
    """As the engine of DeepSpeed, which reduces gradients itself."""

    __module__ = "deepspeed.runtime.engine"

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def fsdp1(module: nn.Module) -> nn.Module:
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"))


def make_engine(module: nn.Module) -> nn.Module:
    return DeepSpeedEngine(module)


def attach_to_engine(engine: Callable[[nn.Module], nn.Module]) -> str:
    with pytest.raises(TypeError) as caught:
        nf.attach(engine(make()))
    return str(caught.value)


@pytest.mark.parametrize(("engine", "words"), [
    (fsdp1, "FullyShardedDataParallel (FSDP1) is not supported: attach() takes DistributedDataParallel, and "
            "fully_shard() or replicate() of FSDP2; use fully_shard(model) instead"),
    (make_engine, "DeepSpeedEngine of deepspeed reduces gradients itself, which attach() does not support: use torch's "
                  "DistributedDataParallel(model) or fully_shard(model) instead of it, not on top of it"),
])
def test_an_engine_that_reduces_gradients_itself_is_rejected(engine, words):
    for message in on_ranks(2, attach_to_engine, engine, fresh=True):
        assert message.startswith(words)


def attach_with_optimizer_in_backward() -> str:
    model = make()
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.01})
    with pytest.raises(RuntimeError) as caught:
        nf.attach(wrap(model))
    return str(caught.value)


def test_an_optimizer_that_runs_in_backward_is_rejected():
    for words in on_ranks(2, attach_with_optimizer_in_backward):
        assert words.startswith("the model's optimizer runs in backward (_apply_optimizer_in_backward)")


def forward_while_capturing() -> tuple[str, int]:
    """The exception of a forward pass during a simulated CUDA graph capture (no GPU is needed), and the
    steps that are counted before and after it."""
    ddp = wrap(make())
    with mock.patch.object(ddp, "device_type", "cuda"):
        fabric = nf.attach(ddp, route="waterfill:6")
    data = batches()
    with mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True), \
            pytest.raises(RuntimeError) as caught:
        ddp(next(data)[0])
    with mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=False):
        loss_of(ddp, next(data)).backward()
    steps = fabric.step
    fabric.close()
    return str(caught.value), steps


def test_capture_of_a_step_in_a_cuda_graph_is_rejected_in_the_forward_pass():
    for words, steps in on_ranks(2, forward_while_capturing):
        assert words.startswith("a CUDA graph is being captured around an attached model.")
        assert steps == 1
