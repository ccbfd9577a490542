"""A Llama of the transformers library on the words of WikiText-2: grouped queries, SwiGLU, rotary positions,
and a head that shares its weights with the embedding. Rows of words that are not in a batch have no gradient.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from .data import DataError
from .text import Text, sequences
from .words import Vocabulary, read_words
from .workload import Batch

JUDGES_AT_ONCE = 16


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int  # of queries; a quarter as many of keys and values
    words: int
    context: int


class Model(nn.Module):
    """Returns the scores alone."""

    def __init__(self, size: Size, words: int) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM

        super().__init__()
        self.llama = LlamaForCausalLM(LlamaConfig(
            vocab_size=words, hidden_size=size.width, intermediate_size=8 * size.width // 3,
            num_hidden_layers=size.layers, num_attention_heads=size.heads,
            num_key_value_heads=size.heads // 4, max_position_embeddings=size.context,
            tie_word_embeddings=True, use_cache=False))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.llama(tokens).logits


class Llama(Text):
    name = "llama"
    sizes = {"tiny": Size(layers=2, width=64, heads=4, words=1000, context=32),
             "small": Size(layers=6, width=384, heads=8, words=16_000, context=128),
             "88m": Size(layers=12, width=768, heads=12, words=16_000, context=256)}
    default_size = "small"
    batch_size = 6
    steps = 300
    warm_up = 30
    takes_data = True

    def __init__(self, size: str | None = None, data: str | Path | None = None) -> None:
        super().__init__(size)
        if importlib.util.find_spec("transformers") is None:
            raise DataError("llama needs the package transformers: pip install transformers")
        train, judges = (read_words(data, split) for split in ("train", "valid"))
        self.words = Vocabulary(train, self.size.words)
        self.text, self.judges = (torch.from_numpy(self.words.encode(part)) for part in (train, judges))
        if len(self.judges) <= self.size.context or len(self.text) <= self.size.context:
            raise DataError(f"{data} has fewer words than one sequence of {self.size.context}")
        self.description = f"{len(train):,} training words, {len(judges):,} test words, {len(self.words):,} known"

    def build(self) -> nn.Module:
        return Model(self.size, len(self.words))

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        rate = min(2e-3, 0.4 / self.size.width)
        return torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.1)

    def held_back(self) -> Iterator[Batch]:
        firsts = np.arange(0, len(self.judges) - self.size.context, self.size.context)
        for begin in range(0, len(firsts), JUDGES_AT_ONCE):
            yield sequences(self.judges, firsts[begin : begin + JUDGES_AT_ONCE], self.size.context)
