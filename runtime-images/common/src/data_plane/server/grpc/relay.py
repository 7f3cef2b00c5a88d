"""Takes the connections of clients, and relays them to gRPC, which listens on the loopback interface.

gRPC's limits on the calls of a connection begin when its client acknowledges the server's settings (RFC 9113, 6.5.3).
Until then gRPC takes 16 MiB of metadata for each call. So the relay acknowledges them before all that a client sends
after its own settings, and leaves out the client's acknowledgement. It tells clients of fewer concurrent calls than
gRPC takes, as gRPC counts a call for a moment longer than its client. When a server ends, it tells clients so while
gRPC still takes calls: those that gRPC gets once it ends are cancelled. Everything else passes as it is.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

from data_plane.limits import (
    HEAD_TIMEOUT,
    LINGER,
    MAX_GRPC_CONNECTIONS,
    MAX_GRPC_STREAMS,
    MAX_GRPC_UNRELEASED,
    MAX_UNACKNOWLEDGED_FRAMES,
)

LOOPBACK = "127.0.0.1"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = 9  # bytes of a frame before its payload; the first three are the payload's length
_ACKNOWLEDGEMENT = b"\0\0\0\4\1\0\0\0\0"  # of settings: a frame
# The setting MAX_CONCURRENT_STREAMS: gRPC's own, and what clients get instead.
_TAKEN_STREAMS, _TOLD_STREAMS = (
    b"\0\3" + number.to_bytes(4, "big") for number in (MAX_GRPC_UNRELEASED, MAX_GRPC_STREAMS)
)
_HEADERS, _CONTINUATION, _END_HEADERS = 1, 9, 4
_GOAWAY = b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0"  # a frame; calls on their way are still taken


class GrpcRelay:
    """At most `limit` clients of a gRPC server. Each is known by what gRPC says of the peer of a call.

    With a context, connections are over TLS.
    """

    def __init__(self, listener: socket.socket, limit: int, context: ssl.SSLContext | None) -> None:
        self._listener = listener
        self._limit = limit
        self._context = context
        self._port = 0  # gRPC's
        self._clients: dict[asyncio.Task[None], _Client] = {}
        self._by_peer: dict[str, _Client] = {}

    async def start(self, port: int) -> None:
        """Accept connections, for gRPC's port on the loopback interface."""
        self._port = port
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Client(self),
            sock=self._listener,
            backlog=MAX_GRPC_CONNECTIONS,
            ssl=self._context,
            ssl_handshake_timeout=HEAD_TIMEOUT if self._context else None,
        )

    def address_of(self, peer: str) -> str:
        """Return the IP address of a client; empty if it has gone."""
        client = self._by_peer.get(peer)
        address = client.transport.get_extra_info("peername") if client else None
        return address[0] if address else ""

    def abort(self, peer: str) -> None:
        """Close the connection of a client, whatever it has not read."""
        if client := self._by_peer.get(peer):
            client.transport.abort()

    def close_port(self) -> None:
        """Accept no more connections."""
        self._server.close()

    async def dismiss(self, seconds: float) -> None:
        """Tell clients to begin no more calls here; wait until they have gone, or may be taken to know it."""
        self._limit = 0  # no more, not even those that are being accepted
        for client in self._clients.values():
            client.dismiss()
        if self._clients:
            await asyncio.wait(tuple(self._clients), timeout=seconds)

    async def left(self, seconds: float) -> None:
        """Wait until the clients have gone; then close the connections of the others."""
        tasks = tuple(self._clients)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                self._clients[task].transport.abort()
            await asyncio.gather(*late)

    def add(self, client: _Client) -> None:
        """Serve a new client, unless there are too many."""
        if len(self._clients) >= self._limit:
            client.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._clients[task] = client
        task.add_done_callback(self._clients.pop)

    async def _serve(self, client: _Client) -> None:
        try:
            upstream, _ = await asyncio.get_running_loop().create_connection(
                lambda: _Upstream(client), LOOPBACK, self._port
            )
        except OSError:  # gRPC has ended, or the process has no file descriptor left
            client.transport.abort()
            return
        host, port = upstream.get_extra_info("sockname")
        peer = f"ipv4:{host}:{port}"
        self._by_peer[peer] = client
        await client.gone
        del self._by_peer[peer]
        upstream.abort()


class _Client(asyncio.Protocol):
    """A client's connection. What it sends waits until gRPC has sent its settings, which it does first of all."""

    transport: asyncio.Transport
    _upstream: asyncio.Transport | None = None
    _early = b""

    def __init__(self, relay: GrpcRelay) -> None:
        self._relay = relay
        self._frames = Frames()
        self._answers = Boundaries()
        self._is_dismissed = False
        self.gone = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._relay.add(self)

    def write(self, data: bytes, upstream: asyncio.Transport) -> None:
        """Send what gRPC has sent. After the first of it, send on what has come from the client, and what will."""
        if self._upstream is None:
            data = data.replace(_TAKEN_STREAMS, _TOLD_STREAMS, 1)
            self._upstream = upstream
            self.transport.resume_reading()
            self.data_received(self._early)
            self._early = b""
        self.transport.write(data)
        if self._answers.is_between(data) and self._is_dismissed:
            self._go_away()

    def dismiss(self) -> None:
        """Tell the client to begin no more calls, as soon as gRPC has sent what it has begun to send."""
        self._is_dismissed = True
        if self._answers.is_between(b"") and self._upstream:
            self._go_away()

    def _go_away(self) -> None:
        self._is_dismissed = False
        if not self.transport.is_closing():
            self.transport.write(_GOAWAY)

    def data_received(self, data: bytes) -> None:
        if self._upstream is None:
            self._early += data
            self.transport.pause_reading()
        elif not self._upstream.is_closing():
            self._upstream.write(self._frames.pass_on(data))
            if self._frames.number > MAX_UNACKNOWLEDGED_FRAMES:
                self.transport.abort()

    def pause_writing(self) -> None:
        if self._upstream:
            self._upstream.pause_reading()

    def resume_writing(self) -> None:
        if self._upstream:
            self._upstream.resume_reading()

    def end(self) -> None:
        """Let the client close the connection: it may still be sending, and to close it here would reset it."""
        self.transport.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # TLS has an end of its own
            self.transport.close()
        asyncio.get_running_loop().call_later(LINGER, self.transport.abort)

    def connection_lost(self, _: Exception | None) -> None:
        self.gone.set_result(None)


class _Upstream(asyncio.Protocol):
    """The connection to gRPC for a client."""

    _transport: asyncio.Transport

    def __init__(self, client: _Client) -> None:
        self._client = client

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._client.transport.is_closing():
            self._client.write(data, self._transport)

    def pause_writing(self) -> None:
        self._client.transport.pause_reading()

    def resume_writing(self) -> None:
        self._client.transport.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        if not self._client.transport.is_closing():
            self._client.end()


class Frames:
    """The frames of a client, of which the second acknowledges the server's settings, and no other does."""

    def __init__(self) -> None:
        self.number = 0  # until the client itself acknowledges them
        self._acknowledged = False
        self._begun = len(_PREFACE)  # bytes that belong to what has begun
        self._kept = b""  # of a head

    def pass_on(self, data: bytes) -> bytes:
        """Return what gRPC gets for the next bytes of the client."""
        if self._acknowledged:
            return data
        data, at = self._kept + data, self._begun
        passed = bytearray(data[:at])
        while at + _HEAD <= len(data) and self.number <= MAX_UNACKNOWLEDGED_FRAMES:
            end = at + _HEAD + int.from_bytes(data[at : at + 3])
            frame = data[at:end]  # of which more may come
            self.number += 1
            if frame == _ACKNOWLEDGEMENT:
                self._acknowledged = True
                return bytes(passed + data[at if self.number <= 2 else end :])
            if self.number == 2:
                passed += _ACKNOWLEDGEMENT
            passed += frame
            at = end
        self._begun, self._kept = max(0, at - len(data)), data[at:]
        return bytes(passed)


class Boundaries:
    """Where another frame may be put between those of gRPC."""

    def __init__(self) -> None:
        self._left = 0  # bytes of a frame that has begun
        self._kept = b""  # of a head
        self._has_fields_left = False  # of a block, which other frames must not interrupt

    def is_between(self, data: bytes) -> bool:
        """Return whether one may come after these next bytes."""
        data, at = self._kept + data, self._left
        while at + _HEAD <= len(data):
            if data[at + 3] in (_HEADERS, _CONTINUATION):
                self._has_fields_left = not data[at + 4] & _END_HEADERS
            at += _HEAD + int.from_bytes(data[at : at + 3])
        self._left, self._kept = max(0, at - len(data)), data[at:]
        return not (self._left or self._kept or self._has_fields_left)
