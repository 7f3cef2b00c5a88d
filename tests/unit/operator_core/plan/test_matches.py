"""Whether an observed value holds a rendered one, by example and as properties."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isvc_operator.api.core_shapes import quantity
from isvc_operator.plan.diff import matches

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
NAMES = st.text("abcdef", min_size=1, max_size=3)
# JSON as manifests have it: a list holds either texts and numbers, or objects.
MANIFESTS = st.recursive(
    SCALARS | st.lists(SCALARS, max_size=3),
    lambda inner: (
        st.dictionaries(NAMES, inner, max_size=4) | st.lists(st.dictionaries(NAMES, inner, max_size=3), max_size=3)
    ),
    max_leaves=20,
)


def with_more(value: Any) -> Any:
    """The value as a server might hold it: every object has a field more, every list of objects an item more."""
    if isinstance(value, dict):
        return {"addedByTheServer": 1, **{name: with_more(item) for name, item in value.items()}}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [{"added": True}, *(with_more(item) for item in value)]
    return value


@given(MANIFESTS)
def test_a_value_covers_itself_whatever_was_added(value: Any) -> None:
    assert matches(with_more(value), value)


@given(st.dictionaries(NAMES, SCALARS), NAMES, st.integers(min_value=1))
def test_a_field_that_is_missing_is_noticed(held: dict[str, Any], name: str, value: int) -> None:
    assert not matches({key: item for key, item in held.items() if key != name}, {**held, name: value})


COVERED = [
    ([{"name": "b", "value": "1"}, {"name": "a"}], [{"name": "a"}, {"name": "b", "value": "1"}]),
    (
        [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
        [{"containerPort": 53, "protocol": "UDP"}],
    ),
    ({"cpu": "500m"}, {"cpu": 0.5}),
    ({"memory": "1Gi"}, {"memory": "1024Mi"}),
    ({"cpu": "124m"}, {"cpu": "123450u"}),
    ({"emptyDir": {}}, {"emptyDir": None}),
    (None, {}),
    (None, []),
    ({}, {"readOnly": False, "value": "", "items": [], "inner": {}}),
]

NOT_COVERED = [
    (["b", "a"], ["a", "b"]),
    (["a"], ["a", "b"]),
    (["a", "b"], ["a"]),
    ("ab", ["a"]),
    ({"a": 1}, ["a"]),
    ([{"name": "a", "value": "1"}], [{"name": "a", "value": "2"}]),
    ([{"name": "a"}], [{"name": "a"}, {"name": "b"}]),
    ({"cpu": "500m"}, {"cpu": "1"}),
    ({"cpu": "123m"}, {"cpu": "123450u"}),
    ({"cpu": "124m"}, {"cpu": "0.12345"}),
    ({"x": "1x"}, {"x": "1"}),
    ("text", {"a": 1}),
    (None, {"a": 1}),
    ({"readOnly": True}, {"readOnly": False}),
    ({"value": "x"}, {"value": ""}),
]


@pytest.mark.parametrize(
    ("observed", "rendered", "covered"),
    [*((*pair, True) for pair in COVERED), *((*pair, False) for pair in NOT_COVERED)],
)
def test_a_value_is_covered_or_not(observed: Any, rendered: Any, covered: bool) -> None:
    assert matches(observed, rendered) is covered


# --- quantities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", "1"),
        (1, "1"),
        (0.5, "0.5"),
        ("1.", "1"),
        (".5", "0.5"),
        ("+1", "1"),
        ("-1", "-1"),
        ("100n", "0.0000001"),
        ("100u", "0.0001"),
        ("500m", "0.5"),
        ("2k", "2000"),
        ("3M", "3000000"),
        ("1E", "1000000000000000000"),
        ("1Ki", "1024"),
        ("1Gi", "1073741824"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("12E-1", "1.2"),
    ],
)
def test_a_quantity_is_a_number(text: Any, number: str) -> None:
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "one", "1 Gi", "1gi", "1K", "1mm", "0x1", "1e", "--1", "inf", None, True, [], {}])
def test_any_other_value_is_no_quantity(text: Any) -> None:
    assert quantity(text) is None


@given(st.integers(min_value=0, max_value=10**6))
def test_a_quantity_has_several_spellings(count: int) -> None:
    assert quantity(f"{count * 1000}m") == quantity(count) == quantity(f"{count}e0") == quantity(f"{count}.0")
    assert quantity(f"{count * 1024}Ki") == quantity(f"{count}Mi")
    assert quantity(f"{count}k") == quantity(count * 1000) == quantity(f"{count}E3")
