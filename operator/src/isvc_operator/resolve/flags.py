"""Flags of KServe's model server in a container's command line: looked up, and added if they are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isvc_operator.manifests import Container


def flag_value(container: Container, flag: str) -> str | None:
    """Return the value of the last ``--flag value`` or ``--flag=value``; None if the flag is missing."""
    arguments = _command_line(container)
    values = [
        item.partition("=")[2] if "=" in item else following
        for item, following in zip(arguments, [*arguments[1:], ""], strict=False)
        if item.partition("=")[0] == flag
    ]
    return values[-1] if values else None


def with_flags(container: Container, flags: Mapping[str, str]) -> dict[str, Any]:
    """Append the flags that are missing, each as two arguments, as KServe does."""
    missing = [item for flag, value in flags.items() if flag_value(container, flag) is None for item in (flag, value)]
    return {**container, "args": [*container.get("args", ()), *missing]}


def _command_line(container: Container) -> list[str]:
    return [str(item) for item in (*container.get("command", ()), *container.get("args", ()))]
