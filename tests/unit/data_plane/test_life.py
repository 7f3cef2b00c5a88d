"""How a model server ends that cannot serve: at once, and for a reason that can be read."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from data_plane.model_server.errors import StartError
from data_plane.model_server.life import open_port
from data_plane.model_server.serving import serve
from data_plane.server.certificate import Tls
from data_plane.server.metrics import ServerMetrics
from tests.support.fake_models import FakeModel, serving
from tests.support.listeners import listening_on
from tests.support.object_stores import tls


async def run(listener: socket.socket, certified: Tls | None = None) -> None:
    """Serve until it ends; nothing here ends it."""
    await asyncio.wait_for(
        serve(
            listening_on(listener, certified),
            serving(FakeModel()),
            ServerMetrics(),
            must_not_end=[asyncio.Event().wait()],
        ),
        20,
    )


@pytest.mark.parametrize(
    ("key", "reason"),
    [("none.key", "No such file or directory"), ("other/tls.key", "key values mismatch")],
    ids=["missing", "of-another-certificate"],
)
async def test_a_certificate_that_cannot_be_used_ends_it(tmp_path: Path, key: str, reason: str) -> None:
    chain = tls.issue(tmp_path).chain
    tls.issue(tmp_path / "other")
    with open_port("127.0.0.1", 0) as listener, pytest.raises(StartError) as ended:
        await run(listener, Tls(str(chain), str(tmp_path / key)))

    told, _, why = str(ended.value).partition(": ")
    assert told == f"HTTPS cannot be served with the certificate {chain} and the key {tmp_path / key}"
    assert reason in why


async def test_a_port_that_cannot_be_listened_on_ends_it() -> None:
    with open_port("127.0.0.1", 0) as listener:
        listener.close()

        with pytest.raises(OSError, match="Bad file descriptor"):
            await run(listener)
