"""Bytes that a parser must survive: random ones, and good ones with something done to them."""

from __future__ import annotations

import random
from collections.abc import Iterator

_TOKENS = (
    b"[", b"]", b"{", b"}", b'"', b",", b":", b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"\\u0000", b"\xff",
    b"18446744073709551616", b"9223372036854775808", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff",
)  # fmt: skip


def damaged(good: list[bytes], count: int, seed: int = 0, tokens: tuple[bytes, ...] = _TOKENS) -> Iterator[bytes]:
    """`count` bodies, the same for each seed: one in eight is noise, the others are good ones with 1 to 4 changes."""
    chance = random.Random(seed)
    for _ in range(count):
        if chance.random() < 0.125:
            yield chance.randbytes(chance.randrange(200))
            continue
        body = bytearray(chance.choice(good))
        for _ in range(chance.randrange(1, 5)):
            _damage(body, chance, tokens)
        yield bytes(body)


def _damage(body: bytearray, chance: random.Random, tokens: tuple[bytes, ...]) -> None:
    start = chance.randrange(len(body) + 1)
    end = min(len(body), start + chance.choice((1, 1, 2, 8, 64)))
    match chance.randrange(5):
        case 0:
            del body[start:end]
        case 1:
            body[start:end] = chance.choice(tokens)
        case 2:
            body[start:start] = chance.choice(tokens)
        case 3:
            body[start:start] = body[start:end]
        case _:
            body[start:end] = chance.randbytes(end - start)
