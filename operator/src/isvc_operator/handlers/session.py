"""The session of kopf's watches, which limits the nesting of the JSON that kopf decodes (``kube/nesting.py``)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf

from isvc_operator.kube.nesting import shallow


def session_of(login: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """Return a session with these credentials; kopf closes it."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=login.as_ssl_context()),
        headers=login.as_http_headers(),
        proxy=login.proxy_url,
        trust_env=login.trust_env,
        response_class=_Response,
    )
    return kopf.AiohttpSession(
        server=login.server,
        default_namespace=login.default_namespace,
        priority=login.priority,
        expiration=login.expiration,
        aiohttp_session=session,
    )


class _Response(aiohttp.ClientResponse):
    """A response of the API server: one JSON text, or one per line for a watch."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        await super().start(connection)
        self.content = _Lines(self.content)  # type: ignore[assignment]
        return self

    async def json(self, **options: Any) -> Any:
        return await super().json(**{**options, "loads": lambda text: json.loads(shallow(text.encode()))})


class _Lines:
    """A stream whose chunks are whole lines."""

    def __init__(self, stream: aiohttp.StreamReader) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self._stream.iter_chunked(size):
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield b"".join(shallow(line) + b"\n" for line in lines)
        if rest:
            yield shallow(rest)
