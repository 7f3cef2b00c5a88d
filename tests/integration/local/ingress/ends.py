"""The two ends of the ingress, and requests that are written byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import web

from isvc.run.container import LOOPBACK

HOST = "first.default.example.com"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Ends:
    """A client session with the ingress, and the server behind it, which responds with ``handler``."""

    session: aiohttp.ClientSession
    url: str
    behind: int  # the server's port
    handler: Handler

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self.handler(request)


async def talk(ends: Ends, sent: bytes) -> bytes:
    """Everything that the ingress responds to ``sent``, until it closes the connection."""
    reader, writer = await asyncio.open_connection(LOOPBACK, int(ends.url.rpartition(":")[2]))
    writer.write(sent)
    try:
        return await reader.read()
    finally:
        writer.close()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def as_sent(line: str, *fields: str, body: bytes = b"") -> bytes:
    """A request to our host that closes the connection after the response."""
    return "\r\n".join((line, f"Host: {HOST}", "Connection: close", *fields, "", "")).encode() + body


async def echo_raw(request: web.Request) -> web.Response:
    """The request as the server behind got it: its target, its header fields in order, and its body's length."""
    fields = [f"{name}: {value}" for name, value in request.headers.items()]
    return web.json_response([request.raw_path, fields, len(await request.read())])
