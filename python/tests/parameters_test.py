"""The runtime handles the parameters that DDP reduces and that have a route."""

from types import SimpleNamespace

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from neuron_fabric.model import all_finite, check_devices, parameters_of
from ranks import on_ranks
from small_job import FEATURES, batches, digest, loss_of, make, sgd, wrap
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


class WithShard(nn.Module):
    """A classifier with a parameter local to the rank, of a different size on every rank; DDP ignores it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = make()
        self.own = nn.Module()
        self.own.shard = nn.Parameter(torch.ones(8 * (dist.get_rank() + 1)))
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, ["own.shard"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.own.shard.mean()


def with_a_shard(route: str) -> tuple[list[bool], str]:
    model = wrap(WithShard())
    with nf.attach(model, route=route) as fabric:
        sound = []
        for step, batch in zip(range(3), batches()):
            model.zero_grad()
            loss_of(model, batch).backward()
            if step == 1 and dist.get_rank() == 1:
                model.module.own.shard.grad.fill_(torch.nan)
            if step == 2:
                model.module.inner.head.bias.grad.fill_(torch.inf)  # on all ranks, as DDP would
            sound.append(fabric.should_step())
        return sound, fabric.describe()


def test_a_parameter_that_ddp_ignores_is_not_changed():
    for sound, described in on_ranks(2, with_a_shard, "fp32"):
        assert sound == [True, True, False]
        assert "shard" not in described
        assert "inner.second.weight" in described


def frozen_after_wrapping() -> int:
    model = wrap(make(), find_unused_parameters=True)
    model.module.second.weight.requires_grad_(False)
    with nf.attach(model, route="waterfill:4") as fabric:
        for _, batch in zip(range(STEPS), batches()):
            loss_of(model, batch).backward()
        return fabric.step


def test_a_parameter_frozen_after_wrapping_is_still_reduced():
    assert on_ranks(2, frozen_after_wrapping) == [STEPS, STEPS]


class Mixed(nn.Module):
    """Parameters with and without a route, and modules that appear to produce sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = make()
        self.embedding = nn.Embedding(16, FEATURES, sparse=True)
        self.frozen = nn.Embedding(16, FEATURES, sparse=True).requires_grad_(False)
        self.wide = nn.Parameter(torch.full((3,), 0.5, dtype=torch.float64))
        self.rotation = nn.Parameter(torch.ones(FEATURES, dtype=torch.complex64))
        self.inner.norm.sparse = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = (x[:, :2] > 0).long()
        x = x + self.embedding(words).sum(1) + self.frozen(words).sum(1)
        return self.inner((x * self.rotation).real) * self.wide.sum().float()


def train_mixed(route: str | None) -> tuple[str, str, list[bool]]:
    torch.manual_seed(1)
    module = Mixed()
    model = wrap(module)
    fabric = nf.attach(model, route=route) if route else None
    optimizer = sgd(model)
    sound = []
    for _, batch in zip(range(STEPS), batches()):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        assert module.embedding.weight.grad.is_sparse
        sound.append(fabric.should_step() if fabric else True)
        optimizer.step()
    if fabric is None:
        return digest(model), "", sound
    described = str(fabric.summary())
    module.wide.grad.fill_(torch.nan)
    sound.append(fabric.should_step())
    fabric.close()
    return digest(model), described, sound


@pytest.mark.parametrize("ranks", [2, 3])
def test_parameters_without_a_route_are_reduced_as_by_plain_ddp(ranks):
    plain = on_ranks(ranks, train_mixed, None)
    for (weights, summary, sound), (expected, _, _) in zip(on_ranks(ranks, train_mixed, "fp32"), plain,
                                                           strict=True):
        assert weights == expected
        assert sound == STEPS * [True] + [False]
        for words in ("wide (float64)", "rotation (complex64)", "embedding.weight (sparse gradients)"):
            assert words in summary


def test_other_parameters_use_low_bits_next_to_those_without_a_route():
    results = on_ranks(2, train_mixed, "waterfill:4")
    assert len({weights for weights, _, _ in results}) == 1
    assert results[0][0] != on_ranks(2, train_mixed, None)[0][0]


def in_double() -> tuple[str, str, bool, str]:
    plain = wrap(make().double())
    model = wrap(make().double())
    fabric = nf.attach(model)
    for one in (plain, model):
        optimizer = sgd(one)
        for _, (x, y) in zip(range(STEPS), batches()):
            optimizer.zero_grad()
            nn.functional.cross_entropy(one(x.double()), y).backward()
            optimizer.step()
    sound = fabric.should_step()
    fabric.close()
    return digest(plain), digest(model), sound, repr(fabric)


def test_a_model_without_any_route_trains_as_plain_ddp():
    for plain, ours, sound, shown in on_ranks(2, in_double):
        assert ours == plain
        assert sound
        assert shown == "<neuron_fabric.Fabric: off>"


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 2, bias=False)
        self.weight = nn.Parameter(torch.ones(2))
        self.bias = nn.Parameter(torch.ones(2))


def test_names_that_collide_without_their_prefix_keep_it():
    assert parameters_of(TwoNames()).names == ["weight", "bias", "module.weight"]
    assert parameters_of(nn.ModuleDict({"module": nn.Linear(2, 2)})).names == ["weight", "bias"]


def test_a_replaced_parameter_is_named_by_its_shape():
    model = nn.Linear(3, 5, bias=False)
    reduced = [(model.weight, False)]
    model.weight = nn.Parameter(torch.ones(5, 3))
    with pytest.raises(ValueError, match=r"a parameter of shape \(5, 3\) that the model no longer has"):
        parameters_of(model, reduced)


def tensor_on(device: str) -> SimpleNamespace:
    return SimpleNamespace(device=torch.device(device))


def test_all_parameters_must_be_on_one_supported_device():
    check_devices([tensor_on("cuda:1"), tensor_on("cuda:1")])
    check_devices([tensor_on("cpu")])
    with pytest.raises(ValueError, match=r"on several devices \(cuda:0, cuda:1\)"):
        check_devices([tensor_on("cuda:0"), tensor_on("cuda:1")])
    with pytest.raises(ValueError, match=r"devices of type mps are not supported; cpu and cuda are"):
        check_devices([tensor_on("mps:0")])
    with pytest.raises(ValueError, match=r"devices of type xpu are not supported"):
        check_devices([tensor_on("xpu:0")])


def test_non_finite_sparse_values_are_detected():
    sparse = torch.sparse_coo_tensor([[1]], [float("nan")], (4,))
    assert all_finite([])
    assert all_finite([torch.ones(3), torch.zeros(0)])
    assert not all_finite([torch.ones(3), sparse])
