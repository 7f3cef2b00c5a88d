"""A socket of this machine whose connections lead to a port of a pod, through the API server.

Each connection is a websocket with the subprotocol ``v4.channel.k8s.io``: every message begins with a channel, 0 for
data and 1 for errors, and the first one of each channel has the port. No kubectl and no route to the pod is needed. The
socket is a file in a folder of its own, so that no other user of this machine can use it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from isvc.api_server import PersonsApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.requests import ApiRequest, path_of
from isvc_operator.text import one_line

_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_PART_BYTES: Final = 64 * 1024


@dataclass
class Forwarded:
    """``socket`` leads to the pod's port; ``problems`` are those of connections that have failed."""

    socket: Path
    problems: list[str] = field(default_factory=list)


@asynccontextmanager
async def forwarded(api: PersonsApi, namespace: str, pod: str, port: int) -> AsyncIterator[Forwarded]:
    """Yield the socket, which is closed at the end of the block."""
    connections: set[asyncio.Task[None]] = set()
    with tempfile.TemporaryDirectory(prefix="isvc-") as folder:
        found = Forwarded(Path(folder) / "port")

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await _forward(api, (namespace, pod, port), found, (reader, writer))
            except (KubeError, aiohttp.ClientError, OSError) as error:
                found.problems.append(one_line(str(error) or type(error).__name__))
            finally:
                writer.close()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(connected(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_unix_server(begin, found.socket)
        try:
            yield found
        finally:
            server.close()
            for task in connections:
                task.cancel()
            await asyncio.gather(*connections, return_exceptions=True)


async def _forward(
    api: PersonsApi,
    where: tuple[str, str, int],
    forwarded: Forwarded,
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    (reader, writer), (namespace, pod, port) = streams, where
    request = ApiRequest("GET", path_of("Pod", namespace, pod) + "/portforward", (("ports", str(port)),))
    async with api.websocket(request, _PROTOCOL) as channel:
        sending = asyncio.ensure_future(_send(reader, channel))
        try:
            await _receive(channel, writer, forwarded)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await sending


async def _send(reader: asyncio.StreamReader, channel: aiohttp.ClientWebSocketResponse[bool]) -> None:
    while part := await reader.read(_PART_BYTES):
        await channel.send_bytes(bytes([_DATA]) + part)
    await channel.close()


async def _receive(
    channel: aiohttp.ClientWebSocketResponse[bool], writer: asyncio.StreamWriter, forwarded: Forwarded
) -> None:
    opened = set[int]()
    async for message in channel:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        number, content = message.data[0], message.data[1:]
        if number not in opened:
            opened.add(number)
            content = content[2:]  # the port
        if number == _ERROR and content:
            forwarded.problems.append(one_line(content.decode(errors="replace")))
            return
        if number == _DATA and content:
            writer.write(content)
            await writer.drain()
