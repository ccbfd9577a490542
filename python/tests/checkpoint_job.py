"""The job of the tests of integrations.checkpoint: a small model under every source, and its checkpoints."""

import json
import warnings
from pathlib import Path

import neuron_fabric as nf
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from neuron_fabric.integrations.checkpoint import FabricState
from small_job import CLASSES, FEATURES, loss_of, make, profile, wrap
from torch import nn
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STOP, END = 14, 18
# After warm-up, `second` is low-bit; `rest` is dense by its error budget.
OPTIONS = {
    "profile": profile({"second": "waterfill:3+ef", "rest": "waterfill:4+ef"},
                       health={"warm_up_steps": 4, "cool_down_steps": 30, "error_budget": 1}),
    "admit": "safe",
}

Layout = tuple[str, int, int]  # source, ranks of a job, jobs

DDP, HSDP, REPLICATE, FSDP2 = ("ddp", 2, 1), ("hsdp", 2, 2), ("replicate", 2, 1), ("fsdp2", 2, 1)
LOW_BIT_HSDP = ("hsdp_low_bit", 2, 2)  # also within replicas


def build(layout: Layout) -> nn.Module:
    source, ranks, shards = layout
    net = make()
    if source == "ddp":
        return wrap(net, bucket_cap_mb=25)
    if source == "replicate":
        return replicate(net, mesh=init_device_mesh("cpu", (ranks,)))
    if source == "fsdp2":
        mesh = init_device_mesh("cpu", (ranks,))
    else:
        mesh = init_device_mesh("cpu", (ranks, shards), mesh_dim_names=("replicas", "shards"))
    fully_shard(net.second, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def attach(layout: Layout, model: nn.Module) -> nf.Fabric:
    return nf.attach(model, within_replicas="low_bit" if layout[0] == "hsdp_low_bit" else "dense", **OPTIONS)


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return getattr(model, "module", model).state_dict()


def train(model: nn.Module, fabric: nf.Fabric, first: int, last: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(first, last):
        generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
        x = torch.randn(8, FEATURES, generator=generator)
        loss = loss_of(model, (x, x[:, :CLASSES].argmax(1)))
        loss.backward()
        fabric.observe(loss)
        optimizer.step()
        optimizer.zero_grad()


def final(model: nn.Module) -> list[torch.Tensor]:
    return [getattr(one, "_local_tensor", one).detach().clone() for one in model.parameters()]


def contents(fabric: nf.Fabric) -> tuple[dict, list[tuple]]:
    """Decisions and statistics with this rank's pending loss, and its route memory."""
    state = fabric.state_dict()
    return json.loads(state["state"]), [
        (item["route"], item["parameter"], item["what"], item["rows"], item["values"].tolist())
        for item in state["memory"]]


def all_contents(fabric: nf.Fabric) -> list[tuple[dict, list[tuple]]]:
    """Those of the fabric, and of the one within this rank's replica."""
    return [contents(one) for one in (fabric, fabric.within) if one is not None]


def save(layout: Layout, folder: Path, how: str = "save") -> tuple[list[tuple], list[torch.Tensor]]:
    """The contents when saved, and the parameters of a run that continues."""
    model = build(layout)
    with attach(layout, model) as fabric:
        train(model, fabric, 0, STOP)
        saved = all_contents(fabric)
        state = {"model": weights(model), "fabric": FabricState(fabric)}
        if how == "save":
            dcp.save(state, checkpoint_id=folder)
            train(model, fabric, STOP, END)
        else:
            done = dcp.async_save(state, checkpoint_id=folder, process_group=dist.new_group())
            train(model, fabric, STOP, END)
            done.result()
    return saved, final(model)


def load(layout: Layout, folder: Path, use_reader: bool = False) -> dict[str, object]:
    model = build(layout)
    with attach(layout, model) as fabric, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        given = {"storage_reader": dcp.FileSystemReader(folder)} if use_reader else {"checkpoint_id": folder}
        dcp.load({"model": weights(model), "fabric": FabricState(fabric, **given)}, **given)
        loaded = all_contents(fabric)
        summary = fabric.summary()
        train(model, fabric, STOP, END)
        assert fabric.step == loaded[0][0]["step"] + END - STOP
    return {"contents": loaded, "final": final(model), "notice": summary.last_warning, "notes": summary.notes,
            "warned": [str(one.message) for one in caught if "neuron_fabric" in str(one.message)]}


def ranks_of(layout: Layout) -> int:
    return layout[1] * layout[2]
