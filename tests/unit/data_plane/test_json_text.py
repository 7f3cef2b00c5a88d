"""Large JSON, read and written in pieces, is what it is in one go."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import orjson
import pytest

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_JSON_CONTAINERS, MAX_JSON_DEPTH, ON_LOOP_BYTES
from data_plane.protocol import json_text

_WINDOW = 3  # bytes: every text is large
_SCALARS = (1, -2.5, None, True, "", "a", "é", ",", "[{", '"', "\\", 'q"\\', '\\"', '",":{')


def value(chance: random.Random, depth: int) -> Any:
    """Lists and objects of any kind, within one another up to `depth`."""
    kind = chance.random()
    if not depth or kind < 0.4:
        return chance.choice(_SCALARS)
    if kind < 0.7:
        return [value(chance, depth - 1) for _ in range(chance.randrange(6))]
    return {f"{chance.choice(_SCALARS)}{index}": value(chance, depth - 1) for index in range(chance.randrange(6))}


def texts(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [orjson.dumps(value(chance, 5), option=chance.choice([0, orjson.OPT_INDENT_2])) for _ in range(40)]


def damaged(text: bytes, chance: random.Random) -> bytes:
    broken = bytearray(text)
    for _ in range(chance.randrange(1, 3)):
        place = chance.randrange(len(broken))
        end = place + chance.randrange(2)
        broken[place:end] = bytes(chance.choices(b'[]{},":\\1 ', k=chance.randrange(2)))
        broken = broken or bytearray(b"1")
    return bytes(broken)


@pytest.mark.parametrize("seed", range(3))
def test_a_text_in_pieces_is_read_as_a_whole_one(seed: int) -> None:
    for text in texts(seed):
        assert json_text.loads_in_pieces(text, _WINDOW) == orjson.loads(text), text


@pytest.mark.parametrize("seed", range(3))
def test_a_text_in_pieces_is_refused_where_a_whole_one_is(seed: int) -> None:
    chance = random.Random(seed)
    for text in (damaged(text, chance) for text in texts(seed)):
        try:
            expected = orjson.loads(text)
        except orjson.JSONDecodeError:
            with pytest.raises(orjson.JSONDecodeError):
                json_text.loads_in_pieces(text, _WINDOW)
        else:
            assert json_text.loads_in_pieces(text, _WINDOW) == expected, text


@pytest.mark.parametrize("seed", range(3))
def test_elements_are_counted_and_members_found_without_reading_them(seed: int) -> None:
    for text in texts(seed):
        read = orjson.loads(text)
        if isinstance(read, list):
            assert json_text.elements(text, _WINDOW) == len(read), text
        if isinstance(read, dict):
            found = json_text.members(text, _WINDOW)
            assert {name: orjson.loads(one) for name, one in found.items()} == read, text


def test_an_error_has_its_place_in_the_whole_text() -> None:
    text = b"[\n" + b'{"a": 1},\n' * 20_000 + b"nul]"

    with pytest.raises(orjson.JSONDecodeError) as in_pieces:
        json_text.loads(text)
    with pytest.raises(orjson.JSONDecodeError) as whole:
        orjson.loads(text)

    assert (in_pieces.value.lineno, in_pieces.value.msg) == (20_002, whole.value.msg)


def test_too_many_lists_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=f"has {MAX_JSON_CONTAINERS + 1} lists and objects"):
        json_text.loads(b"[%b]" % b",".join([b"[]"] * MAX_JSON_CONTAINERS))


def test_a_large_text_that_is_nested_too_deep_is_refused() -> None:
    row = orjson.dumps([0] * 100_000)

    assert json_text.loads(b"[" * 50 + row + b"]" * 50)
    with pytest.raises(InvalidRequest, match=f"nested more than {MAX_JSON_DEPTH} deep"):
        json_text.loads(b"[" * MAX_JSON_DEPTH + row + b"]" * MAX_JSON_DEPTH)


@pytest.mark.parametrize(
    "items",
    [
        list(range(5)),
        ["é"] * 40_000,
        np.arange(5, dtype=np.float32),
        np.arange(100_000, dtype=np.float32),
        np.arange(100_000).reshape(2, 50_000),
        np.arange(100_000).reshape(50_000, 2),
        np.arange(100_000).reshape(2, 2, 25_000),
        np.zeros((50_000, 0)),
    ],
    ids=["list", "texts", "array", "large-array", "long-rows", "short-rows", "rows-of-rows", "empty-rows"],
)
def test_what_is_written_in_pieces_is_what_is_written_at_once(items: Any) -> None:
    option = orjson.OPT_SERIALIZE_NUMPY

    assert orjson.dumps(json_text.writable(items), option=option) == orjson.dumps(items, option=option)


def test_small_values_weigh_more_than_a_long_string() -> None:
    values, string = orjson.dumps([0] * 100_000), orjson.dumps("a" * 200_000)

    assert json_text.weight(values) > ON_LOOP_BYTES > json_text.weight(string)
    assert json_text.weight(b"[]") == 2


@pytest.mark.parametrize("beyond", [1, 15, 16, 1024 * 1024])
def test_a_text_beyond_any_on_the_loop_is_not_searched_for_commas(beyond: int) -> None:
    assert json_text.weight(bytes(16 * ON_LOOP_BYTES + beyond)) > ON_LOOP_BYTES


@pytest.mark.parametrize(
    ("text", "is_short"),
    [
        (b"[" + b"{}," * 10_000 + b"{}]", True),
        (b"[" + b"0.1234567890123456," * 20_000 + b"0]", True),
        (b"[" + b"0," * 100_000 + b"0]", False),
        (b'"' + b"a" * 1_000_000 + b'"', True),
        (b'"' + b"a" * 17_000_000 + b'"', False),
    ],
    ids=["small", "few numbers", "many numbers", "a string", "a long string"],
)
def test_a_text_of_few_values_is_short(text: bytes, is_short: bool) -> None:
    assert json_text.is_short(text) == is_short
    assert json_text.loads(text) == orjson.loads(text)
