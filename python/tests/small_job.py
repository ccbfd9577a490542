"""The job of the DDP tests: a small model trained on random numbers."""

import hashlib
from collections.abc import Iterator

import neuron_fabric as nf
import torch
import torch.distributed as dist
from neuron_fabric.telemetry.stream import Reader
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, CLASSES = 32, 8
BUCKET_MB = 0.01  # several buckets, even for this small model

# Every codec of the table in docs/codecs, and some of their options.
ROUTES = ["bf16", "fp16", "waterfill:3+ef", "waterfill:8", "dynamiq:5", "mxfp8", "mxfp6", "mxfp4",
          "g_binary", "g_binary+majority", "g_ternary", "thc", "topkc:8", "omnireduce:8", "marsit",
          "rotated:3", "powersgd:2"]


class Classifier(nn.Module):
    """Matrices that can use low bits, a norm and biases."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, width)
        self.norm = nn.LayerNorm(width)
        self.second = nn.Linear(width, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.second(self.norm(torch.relu(self.first(x))))))


def make(kind: type[nn.Module] = Classifier, seed: int = 0, **options: object) -> nn.Module:
    """The same weights on every rank."""
    torch.manual_seed(seed)
    return kind(**options)


def wrap(model: nn.Module, **options: object) -> DistributedDataParallel:
    return DistributedDataParallel(model, **{"bucket_cap_mb": BUCKET_MB} | options)


def batches(size: int = 8, seed: int = 0) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless; different on every rank."""
    generator = torch.Generator().manual_seed(1000 * seed + dist.get_rank())
    while True:
        x = torch.randn(size, FEATURES, generator=generator)
        yield x, x[:, :CLASSES].argmax(1)


def sgd(model: nn.Module, rate: float = 0.05) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)


def loss_of(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    x, y = batch
    return nn.functional.cross_entropy(model(x).float(), y)


def digest(model: nn.Module) -> str:
    """A hash of the bits of all parameters."""
    hashed = hashlib.sha256()
    for parameter in model.parameters():
        values = parameter.detach().contiguous()
        hashed.update(values.view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()[:16]


class _Recorder(Reader):
    def __init__(self) -> None:
        self.records: list[dict] = []

    def write(self, record: dict) -> None:
        self.records.append(record)


class Records:
    """All further records of a rank's fabric; files are written only on rank 0."""

    def __init__(self, fabric: nf.Fabric) -> None:
        self._fabric, self._recorder = fabric, _Recorder()
        fabric._session.telemetry._readers.append(self._recorder)

    def of(self, event: str) -> list[dict]:
        self._fabric.summary()  # drains pending records
        return [record for record in self._recorder.records if record["event"] == event]


def profile(routes: dict[str, str], *, health: dict | None = None, **sections: object) -> dict:
    """A profile with the regions `second`, which is one matrix, and `rest`; without a warm-up."""
    return {
        "format": "neuron_fabric.profile", "version": 1, "name": "test",
        "regions": [{"name": "second", "names": ["second.weight"]}, {"name": "rest"}],
        "phases": [{"from_step": 0, "routes": routes}],
        "health": {"warm_up_steps": 0} | (health or {}), "smallest_parameter": 0,
    } | sections
