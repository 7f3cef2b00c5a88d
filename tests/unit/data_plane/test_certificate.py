"""A server's certificate while its files change, over HTTPS and gRPC: new connections get the new one, none is lost."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.server.app import App
from data_plane.server.certificate import Certificate, Tls
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Router
from data_plane.server.run import HttpServer, listen
from tests.support.fake_models import serving
from tests.support.grpc_servers import grpc_port
from tests.support.object_stores import tls

REQUEST = b"GET /none HTTP/1.1\r\nhost: h\r\n\r\n"


@dataclass
class Secret:
    """A mounted Secret: its files are links into the folder `..data`, a link that the kubelet replaces at once."""

    folder: Path
    renewals: int = 0

    def renew(self) -> Path:
        """Write another certificate; return the authority that a client has to trust."""
        self.renewals += 1
        version, link = self.folder / f"..{self.renewals}", self.folder / "..new"
        issued = tls.issue(version)
        link.symlink_to(version.name)
        link.replace(self.folder / "..data")
        for file in (issued.authority, issued.chain, issued.key):
            with contextlib.suppress(FileExistsError):
                (self.folder / file.name).symlink_to(Path("..data") / file.name)
        return issued.authority


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path)


def certificate_of(folder: Path) -> Certificate:
    found = Tls.of_secret(folder)
    assert found
    return Certificate(found)


@contextlib.asynccontextmanager
async def https(certificate: Certificate) -> AsyncIterator[int]:
    listener = listen("127.0.0.1", 0)
    app = App(Router([]), ServerMetrics(), 1000)
    server = HttpServer(app, listener, grace_period_s=5, certificate=certificate)
    running = asyncio.create_task(server.run_until_drained())
    try:
        yield listener.getsockname()[1]
    finally:
        server.drain()
        await running


async def connected(port: int, authority: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection whose certificate is checked; ssl.SSLError if it is not of this authority."""
    return await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context(cafile=authority))


async def status(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
    reader, writer = connection
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = (line.split(b":")[1] for line in head.lower().splitlines() if line.startswith(b"content-length"))
    await reader.readexactly(int(length))
    return head.split()[1]


async def test_new_connections_get_a_renewed_certificate_and_those_that_are_open_go_on(secret: Secret) -> None:
    first = secret.renew()
    certificate = certificate_of(secret.folder)
    async with https(certificate) as port:
        old = await connected(port, first)
        assert await status(old) == b"404"
        second = secret.renew()
        certificate.refresh()

        new = await connected(port, second)
        assert [await status(old), await status(new)] == [b"404", b"404"]
        with pytest.raises(ssl.SSLCertVerificationError):
            await connected(port, first)
        for _, writer in (old, new):
            writer.close()


async def test_grpc_gets_a_renewed_certificate_too(secret: Secret) -> None:
    first = secret.renew()
    certificate = certificate_of(secret.folder)
    async with grpc_port(serving(), certificate=certificate) as port, channel(port, first) as old:
        assert await is_live(old)
        second = secret.renew()
        certificate.refresh()
        async with channel(port, second) as new, channel(port, first) as refused:
            assert await is_live(old)
            assert await is_live(new)
            with pytest.raises(grpc.aio.AioRpcError, match="CERTIFICATE_VERIFY_FAILED"):
                await is_live(refused)


def channel(port: int, authority: Path) -> grpc.aio.Channel:
    # Channels of one process share connections otherwise.
    own = (("grpc.use_local_subchannel_pool", 1),)
    return grpc.aio.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials(authority.read_bytes()), own)


async def is_live(over: grpc.aio.Channel) -> bool:
    ask = over.unary_unary(
        "/inference.GRPCInferenceService/ServerLive",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=pb.ServerLiveResponse.FromString,
    )
    return bool((await ask(pb.ServerLiveRequest(), timeout=20)).live)


@pytest.mark.parametrize("broken", ["of another key", "not a certificate", "missing"])
async def test_files_that_cannot_be_used_leave_the_certificate_before(
    secret: Secret, broken: str, caplog: pytest.LogCaptureFixture, tmp_path_factory: pytest.TempPathFactory
) -> None:
    authority = secret.renew()
    certificate = certificate_of(secret.folder)
    chain = secret.folder / "tls.crt"
    kept = chain.read_bytes()
    match broken:
        case "of another key":
            chain.resolve().write_bytes(tls.issue(tmp_path_factory.mktemp("other")).chain.read_bytes())
        case "missing":
            chain.unlink()
        case _:
            chain.resolve().write_bytes(b"text")

    certificate.refresh()
    certificate.refresh()
    async with https(certificate) as port:
        found = await connected(port, authority)
        assert await status(found) == b"404"
        found[1].close()
    assert len(caplog.messages) == 1
    assert "have changed and cannot be used" in caplog.messages[0]

    chain.unlink(missing_ok=True)
    chain.write_bytes(kept)
    certificate.refresh()
    assert caplog.messages[1:] == []


def test_a_secret_is_for_every_port_and_no_folder_is_no_tls(tmp_path: Path) -> None:
    assert Tls.of_secret(tmp_path) == Tls(f"{tmp_path}/tls.crt", f"{tmp_path}/tls.key", grpc=True)
    assert Tls.of_secret(None) is None
