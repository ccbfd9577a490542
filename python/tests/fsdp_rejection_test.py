"""FSDP2: models and settings that are not supported, or that differ between ranks, are rejected on every rank with an
error that names the reason (ddp_rejection_test.py has the settings of every source)."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from fsdp_job import Mesh, Net, batches, loss_of, make
from ranks import on_ranks
from small_job import profile
from torch import nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

FSDP2, HSDP, REPLICATE = Mesh(0, 2), Mesh(2, 2), Mesh(2, 0)
BOTH = pytest.mark.parametrize("mesh", [FSDP2, HSDP], ids=str)
ALL = pytest.mark.parametrize("mesh", [FSDP2, HSDP, REPLICATE], ids=str)
ROUTE = {"route": "waterfill:4"}


def rejection(call: Callable[[], object]) -> tuple[str, str]:
    """Type and message of its exception."""
    with pytest.raises(Exception) as caught:
        call()
    return type(caught.value).__name__, str(caught.value)


def rejected(mesh: Mesh, options: dict[str, object]) -> tuple[str, str]:
    return rejection(lambda: nf.attach(make(mesh), **options))


def made_with(mesh: Mesh, change: str) -> Callable[[], object]:
    """attach() of a model, with a difference on the last rank."""
    net, options, environment = Net(), ROUTE, {}
    if dist.get_rank() == mesh.ranks - 1:
        match change:
            case "model":
                net.blocks[0][0].requires_grad_(False)
            case "route":
                options = {"route": "waterfill:5"}
            case "profile":
                options = {"profile": profile({"all": "fp32"}, regions=[{"name": "all"}])}
            case "mode":
                environment = {"NF_MODE": "shadow"}
            case "invalid":
                options = {"route": "waterfil:4"}
    model = mesh.wrapper()(net)
    if change == "attached" and dist.get_rank() == mesh.ranks - 1:
        model._get_fsdp_state()._fsdp_param_group.neuron_fabric = None

    def attach() -> nf.Fabric:
        with mock.patch.dict(os.environ, environment):
            return nf.attach(model, **options)

    return attach


def differing(mesh: Mesh, change: str) -> tuple[str, str]:
    return rejection(made_with(mesh, change))


@ALL
@pytest.mark.parametrize(("change", "words"), [
    ("model", "differ in the model's parameters: blocks.0.0.weight ("),
    ("route", "differ in route: waterfill:4 and waterfill:5; start all ranks with the same configuration"),
    ("profile", "differ in route: waterfill:4 and None; start all ranks with the same configuration"),
    ("mode", "differ in NF_MODE: on and shadow; start all ranks with the same configuration"),
    ("invalid", "codec 'waterfil' is unknown; did you mean 'waterfill'?"),
    ("attached", "the model is attached already"),
])
def test_a_difference_is_named_on_every_rank(mesh, change, words):
    """With HSDP also on the ranks of the other shards."""
    for _, message in on_ranks(mesh.ranks, differing, mesh, change):
        assert words in message


def attached_after_an_error(mesh: Mesh) -> int:
    model = make(mesh)
    rejection(lambda: nf.attach(model, route=f"waterfill:{dist.get_rank() + 3}"))
    with nf.attach(model, **ROUTE) as fabric:
        loss_of(model, next(batches())).backward()
        return fabric.step


@BOTH
def test_after_an_error_the_model_can_be_attached(mesh):
    assert on_ranks(mesh.ranks, attached_after_an_error, mesh) == mesh.ranks * [1]


@pytest.mark.parametrize(("options", "words"), [
    ({"topology": "tree"}, "topology='tree' has no reduce-scatter; use one of auto, ring, direct, hierarchical"),
    ({"topology": "halving_doubling"}, "topology='halving_doubling' has no reduce-scatter"),
    ({"reducer": "cxl"}, "reducer='cxl' has no reduce-scatter; omit it"),
    ({"route": "waterfill:3+rms"}, "route 'waterfill:3+rms' has no reduce-scatter: a rank gets the sum of its own shard"),
    ({"route": "powersgd:2"}, "route 'powersgd:2' has no reduce-scatter: its factors belong to whole matrices"),
    ({"profile": profile({"all": "powersgd:2"}, regions=[{"name": "all"}])}, "'powersgd:2' has no reduce-scatter"),
], ids=str)
def test_what_has_no_reduce_scatter_is_rejected_without_replicas(options, words):
    for kind, message in on_ranks(2, rejected, FSDP2, options):
        assert kind == "ValueError"
        assert words in message


class Mixed(nn.Module):
    """A part under FSDP2, and a part under DDP."""

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.sharded = mesh.wrapper()(nn.Linear(8, 8))
        self.replicated = DistributedDataParallel(nn.Linear(8, 8))


@contextmanager
def with_model(mesh: Mesh, kind: str) -> Iterator[nn.Module]:
    wrap, net = mesh.wrapper(), Net()
    match kind:
        case "attached":
            with nf.attach(model := wrap(net), **ROUTE):
                yield model
        case "part_of_attached":
            with nf.attach(model := make(mesh), **ROUTE):
                yield model.blocks[0]
        case "part_is_attached":
            with nf.attach((model := make(mesh)).blocks[0], **ROUTE):
                yield model
        case "closed":
            nf.attach(model := wrap(net), **ROUTE).close()
            yield model
        case "ddp_around":  # with init_sync=True, DistributedDataParallel itself fails
            yield DistributedDataParallel(wrap(nn.Linear(8, 8)), init_sync=False)
        case "ddp_inside":
            net.blocks[0] = DistributedDataParallel(net.blocks[0])
            yield wrap(net)
        case "ddp_beside":
            yield Mixed(mesh)
        case "replicate_inside":
            replicate(net.blocks[0])
            yield wrap(net)
        case "fsdp1_inside":
            net.blocks[0] = FullyShardedDataParallel(net.blocks[0], device_id=torch.device("cpu"))
            yield wrap(net)
        case "replicate_in_ddp":
            replicate(net.blocks[0])
            yield DistributedDataParallel(net)
        case "parts":
            wrap(net.blocks[0])
            yield net
        case "frozen":
            yield wrap(net.requires_grad_(False))
        case "several_meshes":
            other = (2, 1) if mesh.shards else (1, 2)
            fully_shard(net.blocks[0], mesh=init_device_mesh("cpu", other, mesh_dim_names=("replicas", "shards")))
            yield wrap(net)


def rejected_model(mesh: Mesh, kind: str) -> tuple[str, str]:
    with with_model(mesh, kind) as model:
        return rejection(lambda: nf.attach(model, **ROUTE))


@pytest.mark.parametrize(("kind", "words"), [
    ("attached", "the model is attached already"),
    ("part_of_attached", "the model is attached already"),
    ("part_is_attached", "the model is attached already"),
    ("closed", "the model is attached already"),
    ("ddp_around", "DistributedDataParallel is around a module under fully_shard() or replicate(), which reduces its "
                   "gradients itself; use fully_shard() alone"),
    ("ddp_inside", "this model contains a DistributedDataParallel model, which reduces its gradients itself"),
    ("replicate_inside", "this model contains a module under replicate() of DDP, which reduces its gradients itself"),
    ("fsdp1_inside", "this model contains a FullyShardedDataParallel (FSDP1) module, which reduces its gradients"),
    ("replicate_in_ddp", "DistributedDataParallel is around a module under replicate() of DDP, which reduces its "
                         "gradients itself; wrap the model once"),
    ("ddp_beside", "fully_shard() or replicate() was called on parts of this Mixed only"),
    ("parts", "fully_shard() or replicate() was called on parts of this Net only: call it on the whole model too"),
    ("frozen", "the model has no parameter with a gradient"),
    ("several_meshes", "the modules of this model are on different meshes; attach() takes one mesh"),
])
@pytest.mark.parametrize("mesh", [FSDP2, REPLICATE], ids=str)
def test_an_unsupported_model_is_rejected_on_every_rank(mesh, kind, words):
    for _, message in on_ranks(2, rejected_model, mesh, kind):
        assert words in message


class OwnReduceScatter(DefaultReduceScatter):
    """As a user's."""


OTHER_COMM = "which attach() would replace, or which has replaced that of attach(): do not call"


def with_another_reduce_scatter() -> list[str]:
    """Set before attach(), by both setters, and after it."""
    def replace(model: nn.Module) -> None:
        model.set_custom_reduce_scatter(OwnReduceScatter())

    messages = []
    for change in (replace, lambda model: model.set_allocate_memory_from_process_group_for_comm(True)):
        change(model := make(FSDP2))
        messages.append(rejection(lambda model=model: nf.attach(model, **ROUTE))[1])
    with nf.attach(model := make(FSDP2), **ROUTE):
        replace(model)
        messages.append(rejection(lambda: model(next(batches())[0]))[1])
    return messages


def test_another_reduce_scatter_is_rejected():
    for own, allocating, later in on_ranks(2, with_another_reduce_scatter):
        assert own.startswith(f"the reduce-scatter of this model is a OwnReduceScatter, {OTHER_COMM}")
        assert allocating.startswith("the reduce-scatter of this model is a ProcessGroupAllocReduceScatter, ")
        assert later == own


def tensor_parallel() -> tuple[str, float]:
    """The error, and with NF_MODE=off the loss of a step."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    net = Net()
    parallelize_module(net.blocks[0], mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(net.blocks[0], mesh=mesh["data"])
    model = fully_shard(net, mesh=mesh["data"])
    _, message = rejection(lambda: nf.attach(model, **ROUTE))
    with mock.patch.dict(os.environ, {"NF_MODE": "off"}), nf.attach(model, **ROUTE) as fabric:
        loss = loss_of(model, next(batches()))
        loss.backward()
        assert fabric.should_step()
    return message, loss.item()


def test_tensor_parallelism_is_rejected():
    for message, loss in on_ranks(4, tensor_parallel):
        assert message.startswith("the weight of a Linear was a DTensor before fully_shard(): attach() does not "
                                  "support tensor or expert parallelism")
        assert loss > 0


def on_two_meshes_while_off() -> bool:
    with mock.patch.dict(os.environ, {"NF_MODE": "off"}), with_model(FSDP2, "several_meshes") as model:
        fabric = nf.attach(model, **ROUTE)
        loss_of(model, next(batches())).backward()
        return fabric.should_step()


def test_a_model_on_several_meshes_can_be_switched_off():
    assert on_ranks(2, on_two_meshes_while_off) == [True, True]


def changed_after_attach(mesh: Mesh, kind: str) -> tuple[str, str]:
    """The exception of the first forward pass."""
    wrap, net = mesh.wrapper(), Net()
    if kind == "part":
        model = make(mesh)
        fabric = nf.attach(model.blocks[0], **ROUTE)
    elif kind == "root_later":
        fabric = nf.attach(wrap(net.blocks[0]), **ROUTE)
        model = wrap(net)
    else:
        fabric = nf.attach(model := wrap(net), **ROUTE)
        model.more = wrap(nn.Linear(8, 8))
    with fabric:
        return rejection(lambda: model(next(batches())[0]))


@BOTH
@pytest.mark.parametrize(("kind", "words"), [
    ("part", "nf.attach() got this FSDPSequential, a part of a model under fully_shard() or replicate(): call it with "
             "the whole model"),
    ("root_later", "nf.attach() got this FSDPSequential, a part of a model"),
    ("module_later", "fully_shard() was called after nf.attach(): 1 parameter groups are not attached"),
])
def test_a_model_that_is_not_attached_as_a_whole_is_rejected_in_its_first_forward_pass(mesh, kind, words):
    for kind_of_error, message in on_ranks(mesh.ranks, changed_after_attach, mesh, kind):
        assert kind_of_error == "RuntimeError"
        assert message.startswith(words)
