"""Flags of KServe's model server in a container's command line: found where they were given, added where not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flag_value(container: Mapping[str, Any], flag: str) -> str | None:
    """The value of ``--flag value`` or ``--flag=value``, the last one's; None where it was not given."""
    words = _words(container)
    values = [
        word.partition("=")[2] if "=" in word else following
        for word, following in zip(words, [*words[1:], ""], strict=False)
        if word.partition("=")[0] == flag
    ]
    return values[-1] if values else None


def with_flags(container: Mapping[str, Any], flags: Mapping[str, str]) -> dict[str, Any]:
    """The container with those flags that it was not given, as KServe appends them: two words each."""
    missing = [word for flag, value in flags.items() if flag_value(container, flag) is None for word in (flag, value)]
    return {**container, "args": [*container.get("args", ()), *missing]}


def _words(container: Mapping[str, Any]) -> list[str]:
    return [str(word) for word in (*container.get("command", ()), *container.get("args", ()))]
