"""Reads the operator's configuration from the files of a mounted ConfigMap, one per key, and follows changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import ConfigError
from isvc_operator.ignored.walker import ignored_settings

log = logging.getLogger(__name__)

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


async def follow_config(folder: Path, use: Callable[[OperatorConfig, list[str]], Awaitable[None]]) -> None:
    """Call ``use`` with each new configuration and its ignored settings; an invalid one is logged and ignored."""
    known = read_data(folder)
    while True:
        await asyncio.sleep(POLL)
        try:
            data = read_data(folder)
            if data == known:
                continue
            known = data
            config = parse_config(data)
        except (ConfigError, OSError) as error:  # the kubelet may replace the files while they are read
            log.error("%s; the previous configuration stays in use", error)
        else:
            log.info("the configuration has changed")
            await use(config, ignored_settings(data))
