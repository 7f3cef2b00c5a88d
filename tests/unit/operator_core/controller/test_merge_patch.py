"""The patch that turns one status into another (RFC 7386)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isvc_operator.manifests import merge_patch
from tests.support.fakes import merge_patched

SCALARS = st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS | st.lists(SCALARS, max_size=3),
    lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=4),
    max_leaves=15,
)
STATUSES = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, max_size=4)

EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a new field": ({}, {"url": "u"}, {"url": "u"}),
    "another value": ({"url": "u"}, {"url": "v"}, {"url": "v"}),
    "a field that goes": ({"url": "u", "n": 1}, {"n": 1}, {"url": None}),
    "a field inside": ({"m": {"a": 1, "b": 2}}, {"m": {"a": 1, "b": 3}}, {"m": {"b": 3}}),
    "a field inside that goes": ({"m": {"a": 1, "b": 2}}, {"m": {"a": 1}}, {"m": {"b": None}}),
    "a list is replaced whole": ({"c": [1, 2]}, {"c": [1, 3]}, {"c": [1, 3]}),
    "an object in place of a value": ({"m": 1}, {"m": {"a": 1}}, {"m": {"a": 1}}),
    "an empty object in place of a value": ({"m": 1}, {"m": {}}, {"m": {}}),
    "nothing": ({"m": {"a": [1]}}, {"m": {"a": [1]}}, {}),
}


@pytest.mark.parametrize(("before", "after", "patch"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_the_patch_for(before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_patch(before, after, before) == patch


@given(STATUSES, STATUSES)
def test_a_patch_applied_to_the_one_gives_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merge_patched(before, merge_patch(before, after, before)) == after
