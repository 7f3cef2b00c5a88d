"""What a mistyped name may have meant."""

from __future__ import annotations

import pytest

from storage_initializer.suggest import suggestion


@pytest.mark.parametrize(
    ("name", "there", "expected"),
    [
        ("bert-modl.mar", ["mnist.mar", "bert-model.mar"], "did you mean bert-model.mar?"),
        ("xyz", ["config", "model-store"], "there is config, model-store"),
        ("xyz", ["b", "c", "a", "e", "d", "g", "f"], "there is a, b, c, d, e and 2 more"),
        ("xyz", [], "nothing is there"),
    ],
)
def test_the_nearest_name_is_offered_else_what_is_there(name: str, there: list[str], expected: str) -> None:
    assert suggestion(name, there) == expected
