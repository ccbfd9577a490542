"""Sharded training as torchtitan sets it up: fully_shard() of every block, BF16 parameters, an FP32 reduction,
clipped gradients, checkpoints of torch.distributed.checkpoint. nf.attach() is the only addition.

    torchrun --standalone --nproc-per-node 4 examples/torch/fsdp2.py --route waterfill:4
    torchrun --standalone --nproc-per-node 4 examples/torch/fsdp2.py --replicas 2     # HSDP, 2 x 2

The model is a byte-level transformer. The text is Python's own documentation, from the standard library.
docs/howto/sharded_training.md explains the settings.
"""

import argparse
import json
import os
import time
from pathlib import Path
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy

import neuron_fabric as nf
from neuron_fabric.integrations.checkpoint import FabricState

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class ByteModel(nn.Module):
    def __init__(self, width: int, layers: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.position = nn.Parameter(torch.randn(context, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, max(width // 64, 1), 4 * width, dropout=0.0,
                                       batch_first=True, norm_first=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens) + self.position
        for layer in self.layers:
            hidden = layer(hidden, self.mask.to(hidden.dtype), is_causal=True)
        return self.head(self.norm(hidden))


def make_mesh(options: argparse.Namespace) -> DeviceMesh:
    ranks = dist.get_world_size()
    if not options.replicas:
        return init_device_mesh(options.device, (ranks,), mesh_dim_names=("shards",))
    return init_device_mesh(options.device, (options.replicas, ranks // options.replicas),
                            mesh_dim_names=("replicas", "shards"))


def shard(model: ByteModel, options: argparse.Namespace) -> FSDPModule:
    policy = MixedPrecisionPolicy(DTYPES[options.parameters], DTYPES[options.reduction])
    mesh = make_mesh(options)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


class State:
    """The checkpoint of model, optimizer and fabric."""

    def __init__(self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, fabric: nf.Fabric | None,
                 losses: list[float]) -> None:
        self.folder, self.model, self.optimizer, self.losses = folder, model, optimizer, losses
        self.fabric = {} if fabric is None else {"fabric": FabricState(fabric, checkpoint_id=folder)}

    def load(self) -> None:
        state = self._collect()
        dcp.load(state, checkpoint_id=self.folder)
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])
        self.losses[:] = state["losses"]

    def save(self) -> None:
        dcp.save(self._collect(), checkpoint_id=self.folder)

    def _collect(self) -> dict[str, object]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "losses": list(self.losses)} | self.fabric


def train(options: argparse.Namespace) -> None:
    rank = dist.get_rank()
    text = torch.frombuffer(bytearray("".join(topics[name] for name in sorted(topics)).encode()), dtype=torch.uint8)
    text = text.long().to(options.device)

    torch.manual_seed(options.seed)  # all ranks start with the same parameters
    model = shard(ByteModel(options.width, options.layers, options.context).to(options.device), options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    fabric = None
    if options.route != "none":
        settings = {} if options.route == "default" else {"route": options.route}
        fabric = nf.attach(model, within_replicas=options.within, **settings)
    losses: list[float] = []
    state = State(options.checkpoint, model, optimizer, fabric, losses) if options.checkpoint else None
    if state and (options.checkpoint / ".metadata").exists():
        state.load()

    started, first = time.perf_counter(), len(losses)
    for step in range(first, options.steps):
        draw = torch.Generator().manual_seed(10_000 * step + rank)
        starts = torch.randint(len(text) - options.context, (options.batch, 1), generator=draw).to(options.device)
        batch = text[starts + torch.arange(options.context + 1, device=options.device)]
        logits = model(batch[:, :-1])
        loss = cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(float(mean) / dist.get_world_size())
        if fabric is not None:
            fabric.observe(loss)
        if rank == 0 and (step + 1) % 10 == 0:
            print(f"step {step + 1:4d}  loss {losses[-1]:.4f}", flush=True)
    seconds = (time.perf_counter() - started) / max(options.steps - first, 1)

    if state:
        state.save()
    if fabric is not None:
        fabric.close()
    if rank == 0:
        report(options, fabric, losses, seconds)


def report(options: argparse.Namespace, fabric: nf.Fabric | None, losses: list[float], seconds: float) -> None:
    print(f"{1e3 * seconds:.0f} ms per step")
    for one in filter(None, (fabric, fabric and fabric.within)):
        print(one.summary())
    if options.result:
        label = f"{options.route}, {options.reduction} reduction"
        options.result.write_text(json.dumps({"label": label, "losses": losses, "step_seconds": seconds}))


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--route", default="waterfill:4", help="a codec, default, or none: FSDP2 alone")
    parser.add_argument("--replicas", type=int, default=0, help="HSDP with that many replicas; 0: no replicas")
    parser.add_argument("--within", choices=["dense", "low_bit"], default="dense",
                        help="reduction within a replica")
    parser.add_argument("--parameters", choices=DTYPES, default="bf16", help="type of the gathered parameters")
    parser.add_argument("--reduction", choices=DTYPES, default="fp32", help="FSDP's reduce_dtype")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    for name, value in (("width", 128), ("layers", 4), ("context", 64), ("batch", 8), ("steps", 60), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=value, help=" ")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help=" ")
    parser.add_argument("--checkpoint", type=Path, metavar="DIR",
                        help="continue from this checkpoint if it exists, and write it at the end")
    parser.add_argument("--result", type=Path, metavar="FILE", help="write losses, for bench/plot_losses.py")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("cpu:gloo,cuda:nccl" if options.device == "cuda" else "gloo")
    train(options)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
