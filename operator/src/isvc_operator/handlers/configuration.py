"""Reads the operator's configuration from the files of a mounted ConfigMap, one per key, and follows changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import ConfigError
from isvc_operator.ignored_settings import ignored_settings

log = logging.getLogger(__name__)

POLL = 5.0  # seconds


def read_config(folder: Path | None) -> OperatorConfig:
    """Read the configuration in ``folder``, or return the defaults without one; raises ConfigError."""
    return parse_config(_read(folder))


def read_ignored(folder: Path | None) -> list[str]:
    """Return the settings in ``folder`` that have no effect; raises ConfigError."""
    return ignored_settings(_read(folder))


async def follow_config(folder: Path, use: Callable[[OperatorConfig, list[str]], Awaitable[None]]) -> None:
    """Call ``use`` with each new configuration and its ignored settings; an invalid one is logged and ignored."""
    known = _read(folder)
    while True:
        await asyncio.sleep(POLL)
        try:
            data = _read(folder)
            if data == known:
                continue
            known = data
            config = parse_config(data)
        except (ConfigError, OSError) as error:  # the kubelet may replace the files while they are read
            log.error("%s; the previous configuration stays in use", error)
        else:
            log.info("the configuration has changed")
            await use(config, ignored_settings(data))


def _read(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    if not folder.is_dir():
        raise ConfigError(f"configuration folder {folder} does not exist; mount the ConfigMap there")
    return {
        path.name: path.read_text(encoding="utf-8", errors="replace") for path in folder.iterdir() if path.is_file()
    }
