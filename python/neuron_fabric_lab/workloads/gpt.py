"""A byte-level GPT trained on the source text of Python's standard library.

Pre-norm blocks, GELU, learned positions, no biases, no dropout; the head has separate weights, not
those of the embedding.
"""

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from .data import DataError
from .text import Text, sequences
from .workload import Batch

BYTES = 256
# Not in every installation, or not part of the library.
SKIPPED_FOLDERS = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages"}
HELD_BACK = 20      # every twentieth file is test data
JUDGES = 512        # sequences, at even distances in the test files
JUDGES_AT_ONCE = 64


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    context: int


class Attention(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width)
        self.attention = Attention(size)
        self.norm2 = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width, bias=False)
        self.down = nn.Linear(4 * size.width, size.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.token = nn.Embedding(BYTES, size.width)
        self.position = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, BYTES, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # Layers that add to the residual stream start smaller, or it grows with the depth.
                is_residual = name.endswith(("attention.out.weight", "down.weight"))
                scale = (2 * size.layers) ** -0.5 if is_residual else 1
                nn.init.normal_(parameter, std=0.02 * scale)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def library_text() -> tuple[np.ndarray, np.ndarray]:
    """Training bytes and test bytes, of files in the order of their names. Raises DataError if there are
    none."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py")
                   if not SKIPPED_FOLDERS & set(path.relative_to(root).parts))
    if len(files) < HELD_BACK:
        raise DataError(f"{root} has {len(files)} Python files, too few to train on")
    texts = [np.fromfile(root / name, dtype=np.uint8) for name in files]
    judges = texts[HELD_BACK - 1 :: HELD_BACK]
    del texts[HELD_BACK - 1 :: HELD_BACK]
    return np.concatenate(texts), np.concatenate(judges)


class Gpt(Text):
    name = "gpt"
    sizes = {"tiny": Size(layers=2, width=64, heads=2, context=64),
             "mini": Size(layers=4, width=128, heads=4, context=64),
             "small": Size(layers=4, width=256, heads=4, context=128),
             # For GPUs: 122 million parameters and 1.01 billion.
             "124m": Size(layers=17, width=768, heads=12, context=1024),
             "1b": Size(layers=20, width=2048, heads=16, context=1024)}
    default_size = "mini"
    batch_size = 8
    steps = 300
    warm_up = 30

    def __init__(self, size: str | None = None) -> None:
        super().__init__(size)
        self.text, self.judges = map(torch.from_numpy, library_text())
        self.description = (f"{len(self.text):,} training bytes of the standard library, "
                            f"{JUDGES * self.size.context:,} test bytes")

    def build(self) -> nn.Module:
        return Model(self.size)

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        # Wider models need lower rates.
        rate = min(2e-3, 0.25 / self.size.width)
        return torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.1)

    def held_back(self) -> Iterator[Batch]:
        first = np.linspace(0, len(self.judges) - self.size.context - 1, JUDGES, dtype=np.int64)
        for row in np.split(first, JUDGES // JUDGES_AT_ONCE):
            yield sequences(self.judges, row, self.size.context)
