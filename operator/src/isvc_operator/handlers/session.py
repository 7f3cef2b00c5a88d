"""The session of kopf's watches, which limits the nesting of the JSON that kopf decodes (``kube/nesting.py``).

It also notes what the watches hear (``kube/heard.py``).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import aiohttp
import kopf

from isvc_operator.kube.calls import api_path
from isvc_operator.kube.heard import Heard
from isvc_operator.kube.nesting import shallow


def session_of(
    login: kopf.ConnectionInfo, heard: Heard, *, observed_by: Sequence[aiohttp.TraceConfig] = ()
) -> kopf.AiohttpSession:
    """Return a session with these credentials; kopf closes it. ``observed_by``: what sees its requests."""

    class Response(_Response):
        watches = heard

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=login.as_ssl_context()),
        headers=login.as_http_headers(),
        proxy=login.proxy_url,
        trust_env=login.trust_env,
        response_class=Response,
        trace_configs=list(observed_by),
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

    watches: Heard

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        await super().start(connection)
        path = api_path(self.url.path)
        if is_watch := self.status == 200 and self.url.query.get("watch") == "true":
            self.watches.opened(path)
        heard = partial(self.watches.heard, path) if is_watch else _nothing
        self.content = _Lines(self.content, heard)  # type: ignore[assignment]
        return self

    async def json(self, **options: Any) -> Any:
        return await super().json(**{**options, "loads": lambda text: json.loads(shallow(text.encode()))})


def _nothing() -> None:
    """Note nothing: the response is no watch."""


class _Lines:
    """A stream whose chunks are whole lines; ``heard`` is called when bytes arrive."""

    def __init__(self, stream: aiohttp.StreamReader, heard: Callable[[], None]) -> None:
        self._stream = stream
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self._stream.iter_chunked(size):
            self._heard()
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield b"".join(shallow(line) + b"\n" for line in lines)
        if rest:
            yield shallow(rest)
