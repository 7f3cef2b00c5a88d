"""JSON texts are read as orjson reads them, within bounds."""

from __future__ import annotations

import orjson
import pytest

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_JSON_CONTAINERS
from data_plane.protocol import json_text


def test_an_error_has_its_place_in_the_text() -> None:
    with pytest.raises(orjson.JSONDecodeError) as error:
        json_text.loads(b"[\n" + b'{"a": 1},\n' * 20_000 + b"nul]")

    assert error.value.lineno == 20_002


@pytest.mark.parametrize("depth", [1000, 100_000])
def test_a_text_that_is_nested_too_deep_is_an_error(depth: int) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        json_text.loads(b"[" * (depth + 100) + b"]" * (depth + 100))


def test_too_many_lists_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=f"has {MAX_JSON_CONTAINERS + 1} lists and objects"):
        json_text.loads(b"[%b]" % b",".join([b"[]"] * MAX_JSON_CONTAINERS))


@pytest.mark.parametrize("string", ["[{", '"[{', '\\"[{', "\\", '[\\"{', "\\\\"])
def test_brackets_in_strings_are_no_lists(string: str) -> None:
    strings = [string] * MAX_JSON_CONTAINERS

    assert json_text.loads(orjson.dumps([strings])) == [strings]


@pytest.mark.parametrize("lists", [MAX_JSON_CONTAINERS - 2, MAX_JSON_CONTAINERS + 1])
def test_lists_are_counted_between_strings_of_any_length(lists: int) -> None:
    document = [[[] for _ in range(lists)], "[" * 700_001, '"[' * 300_000, "\\"]
    text = orjson.dumps(document)

    if lists < MAX_JSON_CONTAINERS:
        assert json_text.loads(text) == document
    else:
        with pytest.raises(InvalidRequest, match=f"has {lists + 2} lists and objects"):
            json_text.loads(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b'{"a": 1,}', "not valid JSON: trailing comma is not allowed (line 1, column 8)"),
        (b'{"a": "caf\xe9"}', "not valid JSON: it is not in UTF-8"),
        ("[1]".encode("utf-16"), "not valid JSON: it is not in UTF-8"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "not JSON but bytes of another kind"),
    ],
)
def test_a_text_that_is_no_json_is_told_in_plain_words(text: bytes, fault: str) -> None:
    with pytest.raises(orjson.JSONDecodeError) as error:
        json_text.loads(text)

    assert json_text.fault(text, error.value) == fault
