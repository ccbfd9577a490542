"""The job of the FSDP2 tests: a small model, sharded on a mesh and trained in one of the modes of fsdp_modes.py."""

import functools
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import neuron_fabric as nf
import torch
import torch.distributed as dist
from fsdp_modes import MODES
from torch import nn
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

FEATURES, WIDTH, CLASSES = 9, 65, 5


@dataclass(frozen=True)
class Mesh:
    """replicas x shards: HSDP. Without replicas: fully_shard() on a mesh of one dimension. Without shards:
    replicate()."""

    replicas: int
    shards: int
    within: str = "dense"  # within_replicas

    def __str__(self) -> str:
        within = "" if self.within == "dense" else f"-{self.within}"
        return f"{self.source}-{self.replicas}x{self.shards}{within}"

    def attach(self, model: nn.Module, **options: object) -> nf.Fabric:
        return nf.attach(model, within_replicas=self.within, **options)

    @property
    def ranks(self) -> int:
        return max(self.replicas, 1) * max(self.shards, 1)

    @property
    def source(self) -> str:
        return "fsdp2" if not self.replicas else "replicate" if not self.shards else "hsdp"

    def wrapper(self, **options: object) -> Callable[[nn.Module], nn.Module]:
        sizes = {"replicas": self.replicas, "shards": self.shards}
        kept = {name: size for name, size in sizes.items() if size}
        mesh = init_device_mesh("cpu", tuple(kept.values()), mesh_dim_names=tuple(kept))
        return functools.partial(fully_shard if self.shards else replicate, mesh=mesh, **options)


class Net(nn.Module):
    """Sizes that 2, 3 and 4 shards divide, and sizes that they do not; a matrix with fewer rows than 3 ranks;
    a layer that not every step uses."""

    def __init__(self, checkpoints: bool | str = False, tied: bool = False, uses: int = 1) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embed = nn.Linear(FEATURES, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 132), nn.ReLU(), nn.Linear(132, WIDTH)) for _ in range(2))
        self.few = nn.Linear(8 * WIDTH, 2)
        self.norm = nn.LayerNorm(WIDTH)
        self.sometimes = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        if tied:
            self.back = nn.Linear(FEATURES, WIDTH, bias=False)
            self.back.weight = self.embed.weight
        self.checkpoints, self.tied, self.uses = checkpoints, tied, uses
        self.uses_all = True
        self.is_poisoned = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in list(self.blocks) * self.uses:
            x = x + (checkpoint(block, x, use_reentrant=self.checkpoints == "reentrant")
                     if self.checkpoints else block(x))
        x = x * torch.sigmoid(self.few(x.repeat(1, 8))).mean(-1, keepdim=True)
        if self.is_poisoned:  # the gradient of one value is NaN
            value = self.few.weight[0, :1] * 1
            value.register_hook(lambda gradient: gradient * float("nan"))
            x = x + value
        if self.tied:
            x = x + self.back(x @ self.back.weight)
        x = self.norm(x)
        return self.head(self.sometimes(x) if self.uses_all else x)


def make(mesh: Mesh, mode: str = "plain") -> nn.Module:
    how = MODES[mode]
    with torch.device("meta" if how.is_meta else "cpu"):
        net = Net(**how.net)
    how.change(net)
    wrap = mesh.wrapper(**how.options)
    for block in net.blocks:
        wrap(block)
    model = wrap(net)
    if how.is_meta:
        model.to_empty(device="cpu")
        set_model_state_dict(model, Net(**how.net).state_dict(), options=StateDictOptions(full_state_dict=True))
    how.configure(model)
    return model


def batches(seed: int = 0) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless; different on every rank."""
    generator = torch.Generator().manual_seed(100 * seed + dist.get_rank())
    while True:
        x = torch.randn(16, FEATURES, generator=generator)
        yield x, (x[:, :CLASSES] * 2).argmax(-1)


def loss_of(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    x, y = batch
    return nn.functional.cross_entropy(model(x).float(), y)


def shards_of(model: nn.Module) -> list[torch.Tensor]:
    return [one.to_local().detach().clone() for one in model.parameters()]


def whole(model: nn.Module) -> list[torch.Tensor]:
    return [one.full_tensor().detach() for one in model.parameters()]


def digest(tensors: list[torch.Tensor]) -> str:
    """A hash of the bits."""
    hashed = hashlib.sha256()
    for values in tensors:
        hashed.update(values.contiguous().view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()[:16]


@dataclass
class Run:
    """The results of one rank."""

    digests: list[str] = field(default_factory=list)  # of its shards, one per step
    first: list[torch.Tensor] = field(default_factory=list)  # shards after the first step and after the last
    last: list[torch.Tensor] = field(default_factory=list)
    steps: int = 0  # counted by the fabric
    summary: dict | None = None


def train(mesh: Mesh, steps: int, mode: str = "plain", attach: dict[str, object] | None = None,
          digested: Callable[[nn.Module], list[torch.Tensor]] = shards_of) -> Run:
    how, run, draw = MODES[mode], Run(), batches()
    model = make(mesh, mode)
    fabric = None if attach is None else mesh.attach(model, **attach)
    how.late(model)
    optimizers = _optimizers(model, how.in_backward)
    for step in range(steps):
        for part in range(how.parts):
            how.before(model, step, part == how.parts - 1)
            loss_of(model, next(draw)).backward()
        how.after(model)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        run.digests.append(digest(digested(model)))
        if step == 0:
            run.first = shards_of(model)
    run.last = shards_of(model)
    if fabric is not None:
        run.steps = fabric.step
        run.summary = fabric.summary().to_dict() | {"source": fabric.summary().attach.source}
        fabric.close()
    return run


def _optimizers(model: nn.Module, in_backward: bool) -> list[torch.optim.Optimizer]:
    """Those that the training loop calls."""
    if not in_backward:
        return [torch.optim.AdamW(model.parameters(), lr=1e-2)]
    optimizers = {one: torch.optim.AdamW([one], lr=1e-2) for one in model.parameters()}

    def step(parameter: nn.Parameter) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    return []


def both_ways(mesh: Mesh, steps: int, mode: str, attach: dict[str, object]) -> tuple[Run, Run]:
    """Without a fabric, and with one."""
    return train(mesh, steps, mode), train(mesh, steps, mode, attach)
