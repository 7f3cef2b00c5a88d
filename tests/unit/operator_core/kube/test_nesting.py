"""Whatever an object holds, its JSON is decoded; what is nested too deeply is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isvc_operator.api.parsing import excess
from isvc_operator.kube.requests import shallow
from isvc_operator.limits import NESTING

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=3),
    max_leaves=30,
)


def nested(levels: int, inside: str = "1") -> str:
    return '{"a":' * levels + inside + "}" * levels


def depth(value: Any) -> int:
    levels = 0
    while isinstance(value, dict | list) and value:
        value, levels = value["a"] if isinstance(value, dict) else value[0], levels + 1
    return levels


@pytest.mark.parametrize("levels", [NESTING + 1, 900, 5000, 10_000])
@pytest.mark.parametrize("opened", ['{"a":', "["])
@pytest.mark.parametrize(
    "around", ['{"type": "ADDED", "object": %s}', '{"items": [%s]}', "%s"], ids=["event", "list", "own"]
)
def test_any_depth_is_decoded_and_still_seen_to_be_too_deep(levels: int, opened: str, around: str) -> None:
    closed = "}" if opened.startswith("{") else "]"
    many = ", ".join(["{}"] * 300)
    text = around % f'{{"many": [{many}], "spec": {opened * levels}1{closed * levels}}}'

    decoded = json.loads(shallow(text.encode()))

    found = decoded.get("object") or decoded.get("items", [decoded])[0]
    assert len(found["many"]) == 300
    assert NESTING < depth(found["spec"]) + 1 < NESTING + 5
    assert "nested deeper" in str(excess(found))


def test_what_stands_beside_it_is_kept() -> None:
    text = (
        '{"a": 1, "deep": '
        + nested(2000)
        + ', "b": [{"c": "}{]["}], "deep2": '
        + nested(2000, '"\\\\\\"{"')
        + ', "z": 2}'
    )

    decoded = json.loads(shallow(text.encode()))

    assert (decoded["a"], decoded["b"], decoded["z"]) == (1, [{"c": "}{]["}], 2)
    assert depth(decoded["deep"]) == depth(decoded["deep2"])


def test_brackets_in_texts_are_no_levels() -> None:
    text = json.dumps({"annotations": {"last-applied": nested(3000), "half": '{{{[["' * 500}}).encode()

    assert shallow(text) == text


@given(JSON)
def test_other_json_stays_as_it_is(value: Any) -> None:
    text = json.dumps(value).encode()

    assert shallow(text) == text


@given(st.text(alphabet='{}[]",\\:a1 ', max_size=200))
def test_what_is_no_json_is_left_to_the_decoder(text: str) -> None:
    shallow(text.encode())
