"""JSON texts are read as orjson reads them, within bounds."""

from __future__ import annotations

import orjson
import pytest

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_JSON_CONTAINERS
from data_plane.protocol import json_text


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
