"""A Transformer encoder like BERT: post-norm, GELU, learned positions.

Parameters have our own names; load_bert() loads the weights of a BERT of the same shape.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from .data import DataError

POSITIONS = 512
EPSILON = 1e-12
# Names in BERT's files, outside of the layers and in each of them.
_OUTSIDE = {"token.weight": "embeddings.word_embeddings.weight",
            "position.weight": "embeddings.position_embeddings.weight",
            "norm.weight": "embeddings.LayerNorm.weight", "norm.bias": "embeddings.LayerNorm.bias"}
_IN_LAYER = {"query": "attention.self.query", "key": "attention.self.key",
             "value": "attention.self.value", "out": "attention.output.dense",
             "norm1": "attention.output.LayerNorm", "up": "intermediate.dense",
             "down": "output.dense", "norm2": "output.LayerNorm"}


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width, eps=EPSILON)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width, eps=EPSILON)

    def forward(self, x: torch.Tensor, is_word: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in (self.query, self.key, self.value))
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=is_word[:, None, None])
        x = self.norm1(x + self.out(seen.transpose(1, 2).flatten(2)))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):
    """Class scores from the mean of a sentence's tokens, without padding."""

    def __init__(self, shape: Shape, tokens: int, classes: int, pad: int) -> None:
        super().__init__()
        self.pad = pad
        self.token = nn.Embedding(tokens, shape.width)
        self.position = nn.Embedding(POSITIONS, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=EPSILON)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.head = nn.Linear(shape.width, classes)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        is_word = tokens != self.pad
        x = self.norm(self.token(tokens) + self.position.weight[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x, is_word)
        share = is_word / is_word.sum(1, keepdim=True)
        return self.head((x * share[:, :, None]).sum(1))

    @torch.no_grad()
    def load_bert(self, weights: dict[str, torch.Tensor]) -> None:
        """Loads everything except the head. Raises DataError if a weight is missing or has another shape."""
        names = dict(_OUTSIDE)
        for number in range(len(self.layers)):
            for ours, theirs in _IN_LAYER.items():
                for kind in ("weight", "bias"):
                    names[f"layers.{number}.{ours}.{kind}"] = (
                        f"encoder.layer.{number}.{theirs}.{kind}")
        own = dict(self.named_parameters())
        for ours, theirs in names.items():
            if theirs not in weights or weights[theirs].shape != own[ours].shape:
                raise DataError(f"the pretrained weights have no {theirs} of shape "
                                f"{tuple(own[ours].shape)}")
            own[ours].copy_(weights[theirs])
        # Every token of a single sentence has the first type, so its vector is added to the positions.
        if (kinds := weights.get("embeddings.token_type_embeddings.weight")) is not None:
            self.position.weight.add_(kinds[0])
