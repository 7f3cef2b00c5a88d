"""Reads the operator's configuration from the files of a mounted ConfigMap, one per key, and follows changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import ConfigError
from isvc_operator.ignored.walker import ignored_settings

POLL = 5.0  # seconds


def read_data(folder: Path | None) -> dict[str, str]:
    """Return the ConfigMap's data from ``folder``, or none without one; raises ConfigError."""
    if folder is None:
        return {}
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ConfigError(f"configuration folder {folder} {what}; mount the ConfigMap there")
    return {
        path.name: path.read_text(encoding="utf-8", errors="replace") for path in folder.iterdir() if path.is_file()
    }


async def follow_config(
    folder: Path,
    use: Callable[[OperatorConfig, list[str]], Awaitable[None]],
    refuse: Callable[[str], Awaitable[None]],
) -> None:
    """Call ``use`` with each new configuration and its ignored settings, ``refuse`` with why one cannot be used.

    The present one is the first. One that cannot be used is read again, as the kubelet may replace the files meanwhile.
    """
    known: dict[str, str] | None = None
    while True:
        try:
            data = read_data(folder)
            config = None if data == known else parse_config(data)
        except (ConfigError, OSError) as error:
            known = None
            await refuse(str(error))
        else:
            known = data
            if config is not None:
                await use(config, ignored_settings(data))
        await asyncio.sleep(POLL)
