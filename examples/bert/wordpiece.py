"""The tokenizer: WordPiece, greedy and longest match first, over a vocabulary of one token a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

PAD, UNKNOWN, START, END = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_WORDS = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """Lower-case words; each punctuation mark is a word of its own."""
    return _WORDS.findall(text.lower())


class WordPiece:
    """Turns text into token ids; ``[PAD]`` must be the vocabulary's first token."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {token: number for number, token in enumerate(vocabulary)}

    def encode_batch(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Rows of equal length, as short as the longest text allows, never longer than ``max_length``."""
        rows = [self.encode(text, max_length) for text in texts]
        width = max(map(len, rows))
        return [row + [0] * (width - len(row)) for row in rows]

    def encode(self, text: str, max_length: int) -> list[int]:
        pieces = [piece for word in words(text) for piece in self._pieces(word)]
        return [self._ids[token] for token in (START, *pieces[: max_length - 2], END)]

    def _pieces(self, word: str) -> Iterator[str]:
        start = 0
        while start < len(word):
            piece = self._longest_piece(word, start)
            if piece is None:
                yield UNKNOWN
                return
            yield piece
            start += len(piece.removeprefix("##"))

    def _longest_piece(self, word: str, start: int) -> str | None:
        prefix = "##" if start else ""
        candidates = (prefix + word[start:end] for end in range(len(word), start, -1))
        return next((piece for piece in candidates if piece in self._ids), None)
