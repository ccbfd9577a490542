"""Labelled sentences from a user's folder: SST-2 as published by GLUE, compressed or not."""

from dataclasses import dataclass
from pathlib import Path

from .data import DataError, existing_folder, first_file, read_lines


@dataclass(frozen=True)
class Sentences:
    texts: list[str]
    labels: list[int]  # 1 if the sentence is positive


def read_sentences(folder: str | Path | None, split: str) -> Sentences:
    """`split` is train or dev. The folder, or SST-2 in it, has SPLIT.tsv or sst2_SPLIT.tsv, or either with
    .xz: a line of column names, then `sentence TAB label` per line."""
    root = existing_folder(folder, "sst2", "sentences")
    path = first_file((root, root / "SST-2"), (f"{split}.tsv", f"sst2_{split}.tsv"))
    if path:
        return _read(path)
    raise DataError(f"{root} has no {split} sentences of SST-2: neither {split}.tsv, as in GLUE, "
                    f"nor sst2_{split}.tsv, nor either with .xz")


def _read(path: Path) -> Sentences:
    lines = read_lines(path)
    if not lines or lines[0].split("\t") != ["sentence", "label"]:
        raise DataError(f"{path}: its first line is not 'sentence', a tab, 'label'")
    rows = [line.rsplit("\t", 1) for line in lines[1:] if line]
    for number, row in enumerate(rows, start=2):
        if len(row) != 2 or row[1] not in ("0", "1"):
            raise DataError(f"{path}, line {number}: not a sentence, a tab and 0 or 1")
    if not rows:
        raise DataError(f"{path} has no sentences")
    return Sentences([text for text, _ in rows], [int(label) for _, label in rows])
