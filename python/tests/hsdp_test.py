"""HSDP and replicate(): at full precision the runtime changes no bit, at low bits the replicas of each shard
are equal after every step, and all ranks make their decisions together."""

import functools

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from small_job import Records
from torch import nn
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

# Replicas, shards (0: replicate()), and steps.
MESHES = [(2, 2, 30), (3, 1, 8), (2, 3, 8), (2, 0, 8), (3, 0, 30), (4, 0, 8)]


class Net(nn.Module):
    """Sizes that 2 and 3 shards do not divide, and a layer that not every step uses."""

    def __init__(self, checkpoints: bool = False) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embed = nn.Linear(9, 65)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(65, 130), nn.ReLU(), nn.Linear(130, 65)) for _ in range(2))
        self.norm = nn.LayerNorm(65)
        self.sometimes = nn.Linear(65, 65)
        self.head = nn.Linear(65, 5)
        self.checkpoints = checkpoints
        self.uses_all = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = x + (checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x))
        x = self.norm(x)
        return self.head(self.sometimes(x) if self.uses_all else x)


def shard(net: Net, replicas: int, shards: int, **options: object) -> nn.Module:
    if shards == 0:
        wrap = functools.partial(replicate, mesh=init_device_mesh("cpu", (replicas,)), **options)
    else:
        mesh = init_device_mesh("cpu", (replicas, shards), mesh_dim_names=("replicas", "shards"))
        wrap = functools.partial(fully_shard, mesh=mesh, **options)
    for block in net.blocks:
        wrap(block)
    return wrap(net)


MODES = {
    "plain": {},
    "bf16_parameters": {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)},
    "bf16_reduction": {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16)},
    "cpu_offload": {"offload_policy": CPUOffloadPolicy(pin_memory=False)},
    "accumulation": {}, "late_all_reduce": {}, "checkpointing": {}, "clipping": {}, "forced_sum": {},
    "unused": {},
}


def train(replicas: int, shards: int, steps: int, mode: str = "plain",
          attach: dict[str, object] | None = None) -> tuple[list[list[torch.Tensor]], dict | None]:
    """The shards of this rank after every step, and the summary."""
    net = Net(checkpoints=mode == "checkpointing")
    model = shard(net, replicas, shards, **MODES[mode])
    if mode == "forced_sum":
        for module in (*net.blocks, model):
            module.set_force_sum_reduction_for_comms(True)
    fabric = None if attach is None else nf.attach(model, **attach)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(dist.get_rank())
    history = []
    for step in range(steps):
        net.uses_all = mode != "unused" or step % 3 != 1
        parts = 2 if mode in ("accumulation", "late_all_reduce") else 1
        for part in range(parts):
            if mode == "accumulation":
                model.set_requires_gradient_sync(part == parts - 1)
            elif mode == "late_all_reduce":
                model.set_requires_all_reduce(part == parts - 1)
            x = torch.randn(16, 9, generator=generator)
            y = (x[:, :5] * 2).argmax(-1)
            nn.functional.cross_entropy(model(x).float(), y).backward()
        if mode == "clipping":
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        history.append([one.to_local().detach().clone() for one in model.parameters()])
    summary = None
    if fabric is not None:
        assert fabric.step == steps
        summary = fabric.summary().to_dict() | {"source": fabric.summary().attach.source}
        fabric.close()
    return history, summary


def ranks_of(replicas: int, shards: int) -> int:
    return replicas * max(shards, 1)


def assert_equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("replicas", "shards", "steps"), MESHES)
def test_fp32_equals_fsdp_alone_bit_for_bit(replicas, shards, steps):
    ranks = ranks_of(replicas, shards)
    alone = on_ranks(ranks, train, replicas, shards, steps)
    attached = on_ranks(ranks, train, replicas, shards, steps, attach={"route": "fp32"})
    for (plain, _), (ours, summary) in zip(alone, attached, strict=True):
        assert_equal(plain[-1], ours[-1])
        assert summary["source"] == ("hsdp" if shards else "replicate")


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "plain"])
def test_fp32_equals_fsdp_alone_in_every_mode(mode):
    alone = on_ranks(4, train, 2, 2, 8, mode)
    attached = on_ranks(4, train, 2, 2, 8, mode, attach={"route": "fp32"})
    for (plain, _), (ours, _) in zip(alone, attached, strict=True):
        assert_equal(plain[-1], ours[-1])


@pytest.mark.parametrize(("replicas", "shards", "steps"), [(2, 2, 200), (3, 0, 30)])
def test_replicas_are_equal_after_every_step(replicas, shards, steps):
    ranks = ranks_of(replicas, shards)
    results = on_ranks(ranks, train, replicas, shards, steps, attach={"route": "waterfill:4"}, timeout=240)
    stride = max(shards, 1)
    for rank, (history, summary) in enumerate(results):
        for step, (own, first) in enumerate(zip(history, results[rank % stride][0], strict=True)):
            assert_equal(own, first)
        assert summary["bytes"] < 0.4 * summary["dense_bytes"], "small parameters are dense"
        assert not torch.equal(history[0][0], history[-1][0])


@pytest.mark.parametrize("mode", ["bf16_reduction", "accumulation", "late_all_reduce", "unused"])
def test_replicas_are_equal_in_every_mode(mode):
    results = on_ranks(4, train, 2, 2, 8, mode, attach={"route": "waterfill:3+ef"})
    for rank, (history, _) in enumerate(results):
        for own, first in zip(history, results[rank % 2][0], strict=True):
            assert_equal(own, first)


def test_low_bits_train_as_well_as_full_precision():
    """The distance to the parameters of a dense run stays small against what the run has moved them."""
    dense = on_ranks(4, train, 2, 2, 20, attach={"route": "fp32"})
    low = on_ranks(4, train, 2, 2, 20, attach={"route": "waterfill:8"})
    for (exact, _), (near, _) in zip(dense, low, strict=True):
        apart = sum(float((a - b).square().sum()) for a, b in zip(exact[-1], near[-1], strict=True))
        moved = sum(float((a - b).square().sum()) for a, b in zip(exact[-1], exact[0], strict=True))
        assert 0 < apart < 0.05 * moved


def with_nan(step_of_nan: int) -> tuple[list[bool], list[str]]:
    net = Net()
    model = shard(net, 2, 2)
    fabric = nf.attach(model, route="waterfill:4")
    known = []
    for step in range(3):
        x = torch.randn(8, 9)
        if step == step_of_nan and dist.get_rank() == 3:
            x[0, 0] = float("nan")
        model(x).square().mean().backward()
        known.append(fabric.should_step())
        model.zero_grad()
    fabric.close()
    return known, [fabric.place]


def test_all_ranks_learn_of_a_nan_on_one_rank():
    for known, _ in on_ranks(4, with_nan, 1):
        assert known == [True, False, True]


WARM_UP, FAULT = 12, 20


def falls_back(steps: int) -> list[tuple[int, str, str]]:
    """Step, route and reason of every decision."""
    net = Net()
    model = shard(net, 2, 2)
    profile = {"format": "neuron_fabric.profile", "version": 1, "name": "short", "regions": [{"name": "all"}],
               "phases": [{"from_step": 0, "routes": {"all": "waterfill:5"}}], "smallest_parameter": 0,
               "health": {"warm_up_steps": WARM_UP, "cool_down_steps": 50, "error_budget": 1.0}}
    fabric = nf.attach(model, profile=profile, admit="safe")
    records = Records(fabric)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(steps):
        x = torch.randn(64, 9, generator=generator)
        if step == FAULT and dist.get_rank() == 3:
            x[0, 0] = float("inf")
        model(x).square().mean().backward()
        model.zero_grad()
    decisions = [(one["step"], one["route"], one["to"]) for one in records.of("decision")]
    fabric.close()
    return decisions


def test_all_ranks_fall_back_at_the_same_step():
    results = on_ranks(4, falls_back, FAULT + 5)
    assert all(result == results[0] for result in results)
    assert results[0] == [(WARM_UP, "waterfill:5", "admitted"), (FAULT + 2, "fp32", "non_finite"),
                          (FAULT + 3, "fp32", "cool_down")]


def resumed(split: int, steps: int, route: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The shards of an uninterrupted run, and of a run that continues from a state saved at step `split`."""

    def run(model: nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> None:
        for step in range(first, last):
            generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
            model(torch.randn(16, 9, generator=generator)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    def local(model: nn.Module) -> list[torch.Tensor]:
        return [one.to_local().detach().clone() for one in model.parameters()]

    whole = shard(Net(), 2, 2)
    with nf.attach(whole, route=route):
        run(whole, torch.optim.SGD(whole.parameters(), lr=0.05), 0, steps)
    first = shard(Net(), 2, 2)
    with nf.attach(first, route=route) as fabric:
        run(first, torch.optim.SGD(first.parameters(), lr=0.05), 0, split)
        state = fabric.state_dict()
    second = shard(Net(), 2, 2)
    with torch.no_grad():
        for to, saved in zip(second.parameters(), first.parameters(), strict=True):
            to.to_local().copy_(saved.to_local())
    with nf.attach(second, route=route) as fabric:
        fabric.load_state_dict(state)
        run(second, torch.optim.SGD(second.parameters(), lr=0.05), split, steps)
    return local(whole), local(second)


@pytest.mark.parametrize("route", ["waterfill:4", "waterfill:3+ef"])
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_run(route):
    for uninterrupted, continued in on_ranks(4, resumed, 3, 7, route):
        assert_equal(uninterrupted, continued)


def rejected(case: str) -> str:
    net = Net()
    if case == "one_dimension":
        fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
    else:
        model = shard(net, 2, 0)
        nf.attach(model, route="fp32")
    with pytest.raises(RuntimeError) as caught:
        nf.attach(net)
    return str(caught.value)


@pytest.mark.parametrize(("case", "words"), [("one_dimension", "on a mesh without replicas"),
                                             ("twice", "the model is attached already")])
def test_unsupported_models_are_rejected_on_every_rank(case, words):
    for message in on_ranks(2, rejected, case, fresh=True):
        assert words in message


def run_folders(folder: str) -> None:
    train(2, 2, 3, attach={"route": "waterfill:4", "run_dir": folder})


def test_each_shard_writes_a_run_folder(tmp_path):
    on_ranks(4, run_folders, str(tmp_path))
    for part in range(2):
        assert list((tmp_path / f"shard-{part}").glob("*.jsonl"))
