"""What a run says of those who ask it what it serves."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from isvc.run.cluster import LocalCluster
from isvc.run.door import door
from isvc.source.runs import SOCKET

LOG = "/log?namespace=a&name=a&pod=a&container=a&lines=1&follow=1&previous=0&since="


async def lines() -> AsyncIterator[str]:
    yield "a line"


@pytest.mark.parametrize("path", ["/services", LOG])
async def test_a_run_says_nothing_of_a_client_that_hangs_up(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def gone(*_: object) -> None:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    async def none_known(_: object) -> dict[str, Any]:
        return {}

    monkeypatch.setattr(web.StreamResponse, "write", gone)
    with tempfile.TemporaryDirectory() as folder:
        cluster = SimpleNamespace(folder=Path(folder), services={}, read_changes=nullcontext, log=lambda *_: lines())
        async with (
            door(cast(LocalCluster, cluster), url="", dashboard="", known=none_known),
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(Path(folder) / SOCKET))) as session,
            session.get(f"http://run{path}") as response,
        ):
            with pytest.raises(aiohttp.ClientError):
                await response.read()

    assert caplog.messages == []
