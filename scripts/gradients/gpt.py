"""A byte-level GPT that learns the source text of Python's standard library.

Pre-norm blocks, GELU, learned positions, no biases, no dropout; the head has weights of its own,
not those of the embedding.
"""

import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

BYTES = 256
# Not in every installation, or not of the library.
SKIPPED_FOLDERS = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages"}


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    context: int


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width)
        self.attention = Attention(size)
        self.norm2 = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width, bias=False)
        self.down = nn.Linear(4 * size.width, size.width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.token = nn.Embedding(BYTES, size.width)
        self.position = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, BYTES, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # What adds to the residual stream starts smaller, or it grows with the depth.
                is_residual = name.endswith(("attention.out.weight", "down.weight"))
                scale = (2 * size.layers) ** -0.5 if is_residual else 1
                nn.init.normal_(parameter, std=0.02 * scale)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def library_text():
    """(training, validation) bytes: every twentieth file, in order of their names, validates."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py")
                   if not SKIPPED_FOLDERS & set(path.relative_to(root).parts))
    if len(files) < 20:
        raise ValueError(f"{root} holds {len(files)} Python files, too few to learn from")
    texts = [np.fromfile(root / name, dtype=np.uint8) for name in files]
    held_back = texts[19::20]
    del texts[19::20]
    return np.concatenate(texts), np.concatenate(held_back)


class Gpt:
    """What training asks of a workload, for the GPT."""

    name = "gpt"
    sizes = {"tiny": Size(layers=2, width=64, heads=2, context=64),
             "small": Size(layers=4, width=256, heads=4, context=128),
             "25m": Size(layers=8, width=512, heads=8, context=256)}
    default_size = "25m"
    default_steps = [50, 500, 1500]
    default_batch = 8
    takes_data = False
    warm_up = 100

    def __init__(self, size, data, seed):
        self.size = self.sizes[size]
        self.training, self.held_back = library_text()
        self.description = (f"{len(self.training):,} bytes of the standard library to learn from, "
                            f"{len(self.held_back):,} to validate")

    def make_model(self):
        return Model(self.size)

    def make_optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)

    # Constant in the end, so that a step's gradient does not depend on how many steps follow it.
    def rate(self, step):
        return min(1, (step + 1) / self.warm_up)

    def batch(self, rng, count):
        return self.sequences(self.training, rng, count)

    def validation(self, rng, count):
        return self.sequences(self.held_back, rng, count)

    def sequences(self, text, rng, count):
        first = rng.integers(len(text) - self.size.context, size=(count, 1))
        taken = text[first + np.arange(self.size.context + 1)].astype(np.int64)
        return torch.from_numpy(taken[:, :-1]), torch.from_numpy(taken[:, 1:])
