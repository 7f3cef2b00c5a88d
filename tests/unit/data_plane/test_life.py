"""How a model server ends: at once, and for a reason that can be read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data_plane import tasks
from data_plane.model_server.errors import StartError
from data_plane.model_server.life import _address, open_port
from data_plane.model_server.serving import serve
from data_plane.server.certificate import Tls
from data_plane.server.grpc.server import GrpcServer
from data_plane.server.metrics import ServerMetrics
from tests.support.fake_models import FakeModel, serving
from tests.support.listeners import listening_on
from tests.support.object_stores import tls
from tests.support.ports import free_port


async def run(
    listener: socket.socket,
    certified: Tls | None = None,
    must_not_end: Sequence[Awaitable[Any]] = (),
    *,
    grpc_port: int = 0,
) -> None:
    """Serve until it ends; nothing here ends it but one of ``must_not_end``."""
    endless = [asyncio.Event().wait(), *must_not_end]
    listeners = replace(listening_on(listener, certified), grpc_port=grpc_port)
    serving_ = serve(listeners, serving(FakeModel()), ServerMetrics(), must_not_end=endless)
    await asyncio.wait_for(serving_, 120)


@pytest.mark.parametrize(
    ("host", "certified", "address"),
    [
        ("", None, "http://localhost"),
        ("::", None, "http://localhost"),
        ("127.0.0.1", Tls("chain", "key"), "https://127.0.0.1"),
        ("::1", None, "http://[::1]"),
    ],
)
async def test_the_address_that_is_logged_can_be_asked(host: str, certified: Tls | None, address: str) -> None:
    with open_port(host, 0) as listener:
        assert _address(listening_on(listener, certified)) == f"{address}:{listener.getsockname()[1]}"


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


async def test_a_port_for_grpc_that_is_taken_ends_it() -> None:
    with open_port("127.0.0.1", 0) as listener, open_port("127.0.0.1", 0) as other:
        port = other.getsockname()[1]

        with pytest.raises(StartError) as ended:
            await run(listener, grpc_port=port)
    assert str(ended.value).startswith(f"Port {port} cannot be opened: Address already in use")
    assert str(ended.value).endswith("; stop what uses it or choose another with --grpc-port or --host.")


async def test_the_end_of_the_grpc_server_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients would be refused for good, while probes over HTTP are answered."""

    async def ends(_: GrpcServer) -> None:
        raise UnicodeDecodeError("utf-8", b"\xfa", 0, 1, "invalid start byte")

    monkeypatch.setattr(GrpcServer, "run_until_stopped", ends)
    with open_port("127.0.0.1", 0) as listener, pytest.raises(UnicodeDecodeError):
        await run(listener, grpc_port=free_port())


async def test_it_ends_with_what_loses_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """`asyncio.wait_for` does, now and then; what runs in the background may not keep the server from its end."""
    monkeypatch.setattr(tasks, "_AGAIN_S", 0.05)
    lost = 0

    async def runs_on() -> None:
        nonlocal lost
        while lost < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost += 1

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ConnectionError("the runtime has died")

    with open_port("127.0.0.1", 0) as listener, pytest.raises(ConnectionError, match="the runtime has died"):
        await run(listener, must_not_end=[runs_on(), fails()])
    assert lost == 2
