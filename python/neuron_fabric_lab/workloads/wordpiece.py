"""Sentences into numbers, as BERT does it: words in small letters without accents, each cut into the
longest pieces that the vocabulary has."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

PAD, UNKNOWN, BEGIN, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100  # letters; longer ones are no words


class WordPiece:
    def __init__(self, vocabulary: Iterable[str]) -> None:
        """Fails with ValueError where it lacks what every sentence needs."""
        self.numbers = {piece: number for number, piece in enumerate(vocabulary)}
        if missing := [word for word in (PAD, UNKNOWN, BEGIN, END) if word not in self.numbers]:
            raise ValueError(f"the vocabulary has no {', '.join(missing)}")
        self._known: dict[str, list[int]] = {}  # most words come often

    @classmethod
    def load(cls, path: Path) -> "WordPiece":
        return cls(path.read_text(encoding="utf-8").split("\n")[:-1])

    @classmethod
    def of_words(cls, texts: Iterable[str], most: int) -> "WordPiece":
        """Of the most frequent words of the texts, whole."""
        counts = Counter(word for text in texts for word in words(text))
        frequent = sorted(counts, key=lambda word: (-counts[word], word))
        return cls([PAD, UNKNOWN, BEGIN, END, *frequent[:most]])

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def pad(self) -> int:
        return self.numbers[PAD]

    def encode(self, text: str, most: int) -> list[int]:
        """With the marks of begin and end, cut to `most` numbers."""
        pieces = [piece for word in words(text) for piece in self._pieces(word)]
        return [self.numbers[BEGIN], *pieces[: most - 2], self.numbers[END]]

    def _pieces(self, word: str) -> list[int]:
        if word not in self._known:
            self._known[word] = self._cut(word)
        return self._known[word]

    def _cut(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self.numbers[UNKNOWN]]
        pieces, first = [], 0
        while first < len(word):
            mark = "##" if first else ""
            for last in range(len(word), first, -1):
                if (number := self.numbers.get(mark + word[first:last])) is not None:
                    break
            else:
                return [self.numbers[UNKNOWN]]
            pieces.append(number)
            first = last
        return pieces


def words(text: str) -> list[str]:
    """Cut at spaces, and around every sign."""
    letters = (letter for letter in unicodedata.normalize("NFD", text.lower())
               if unicodedata.category(letter) != "Mn")
    return "".join(f" {letter} " if _is_sign(letter) else letter for letter in letters).split()


def _is_sign(letter: str) -> bool:
    is_ascii_sign = letter.isascii() and letter.isprintable() and not letter.isalnum()
    return letter != " " and (is_ascii_sign or unicodedata.category(letter).startswith("P"))
