"""Flags in a container's command line."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.resolve.containers import flag_value, with_flags

GIVEN: dict[str, tuple[dict[str, Any], str | None]] = {
    "two words": ({"args": ["--name", "x"]}, "x"),
    "one word": ({"args": ["--name=x"]}, "x"),
    "an empty value": ({"args": ["--name="]}, ""),
    "a value with an equals sign": ({"args": ["--name=a=b"]}, "a=b"),
    "in the command": ({"command": ["python", "model.py", "--name", "x"]}, "x"),
    "twice: the last one": ({"args": ["--name=x", "--name", "y"]}, "y"),
    "a switch at the end": ({"args": ["--name"]}, ""),
    "not: longer": ({"args": ["--names=x", "--name_of", "x"]}, None),
    "not: a value": ({"args": ["--title", "name"]}, None),
    "not: nothing": ({}, None),
}


@pytest.mark.parametrize(("container", "value"), GIVEN.values(), ids=GIVEN.keys())
def test_a_flag_is_found_by_its_whole_name(container: dict[str, Any], value: str | None) -> None:
    assert flag_value(container, "--name") == value


def test_missing_flags_are_appended_as_two_arguments_each() -> None:
    container = {"image": "i", "args": ["--given=1"]}

    assert with_flags(container, {"--given": "2", "--new": "3"}) == {"image": "i", "args": ["--given=1", "--new", "3"]}
