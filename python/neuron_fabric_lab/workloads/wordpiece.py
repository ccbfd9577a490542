"""Tokenises sentences like BERT: words in lower case without accents, each split into the longest pieces
in the vocabulary."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

PAD, UNKNOWN, BEGIN, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100  # letters; longer words are unknown


class WordPiece:
    def __init__(self, vocabulary: Iterable[str]) -> None:
        """Raises ValueError if a special token is missing."""
        self.numbers = {piece: number for number, piece in enumerate(vocabulary)}
        if missing := [word for word in (PAD, UNKNOWN, BEGIN, END) if word not in self.numbers]:
            raise ValueError(f"the vocabulary has no {', '.join(missing)}")
        self._known: dict[str, list[int]] = {}  # cache: most words are frequent

    @classmethod
    def load(cls, path: Path) -> "WordPiece":
        return cls(path.read_text(encoding="utf-8").split("\n")[:-1])

    @classmethod
    def of_words(cls, texts: Iterable[str], limit: int) -> "WordPiece":
        """A vocabulary of the most frequent words of the texts, unsplit."""
        counts = Counter(word for text in texts for word in words(text))
        frequent = sorted(counts, key=lambda word: (-counts[word], word))
        return cls([PAD, UNKNOWN, BEGIN, END, *frequent[:limit]])

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def pad(self) -> int:
        return self.numbers[PAD]

    def encode(self, text: str, limit: int) -> list[int]:
        """With begin and end tokens, cut to `limit` numbers."""
        pieces = [piece for word in words(text) for piece in self._pieces(word)]
        return [self.numbers[BEGIN], *pieces[: limit - 2], self.numbers[END]]

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
    """Split at spaces, and around every punctuation mark."""
    letters = (letter for letter in unicodedata.normalize("NFD", text.lower())
               if unicodedata.category(letter) != "Mn")
    return "".join(f" {letter} " if _is_sign(letter) else letter for letter in letters).split()


def _is_sign(letter: str) -> bool:
    is_ascii_sign = letter.isascii() and letter.isprintable() and not letter.isalnum()
    return letter != " " and (is_ascii_sign or unicodedata.category(letter).startswith("P"))
