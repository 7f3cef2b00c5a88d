"""Reads the operator's configuration from files, one per key, as a mounted ConfigMap has them; notices changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.errors import ConfigError

log = logging.getLogger(__name__)

POLL = 5.0  # seconds


def read_config(folder: Path | None) -> OperatorConfig:
    """The configuration in ``folder``, or the defaults where none is named; raises ConfigError."""
    return parse_config(_read(folder))


async def follow_config(folder: Path, use: Callable[[OperatorConfig], None]) -> None:
    """Call ``use`` with each new configuration; one that cannot be used is logged and left aside."""
    known = _read(folder)
    while True:
        await asyncio.sleep(POLL)
        try:
            data = _read(folder)
            if data == known:
                continue
            known = data
            config = parse_config(data)
        except (ConfigError, OSError) as error:  # the kubelet exchanges the files while they are read
            log.error("%s; the configuration before it stays in use", error)
        else:
            log.info("the configuration has changed")
            use(config)


def _read(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    if not folder.is_dir():
        raise ConfigError(f"configuration folder {folder} does not exist; mount the ConfigMap there")
    return {
        path.name: path.read_text(encoding="utf-8", errors="replace") for path in folder.iterdir() if path.is_file()
    }
