"""An HTTP client for predictors, on aiohttp: no redirects, no cookies, no proxies; its errors name the predictor."""

from __future__ import annotations

import asyncio
import functools
import io
import math
import ssl
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

import aiohttp

from data_plane import limits
from data_plane.client.address import Address
from data_plane.client.errors import PredictorBroken, PredictorTimeout, PredictorUnreachable
from data_plane.client.failures import broken, is_silent, unreachable
from data_plane.client.pieces import Pieces
from data_plane.client.responses import UpstreamResponse
from data_plane.client.sessions import PROGRESS, Limits, RequestProgress, Sessions
from data_plane.client.time_limit import time_limit
from data_plane.tls import trusting

TlsOf = Callable[[], ssl.SSLContext]  # asked for each request: what is trusted may be renewed

_FIRST_RETRY_S, _DOUBLINGS = 0.1, 10
_SAFE = "/?!$%&'()*+,;=:@"  # in a request's target, beside letters and digits
_AT_ONCE = 2**20  # bytes of a body that aiohttp writes in one turn of the event loop
# A server that closes an idle connection while a request is on the way ends it without a response. A busy server does
# so late; after more than this time, it may have read the request.
_CROSSING_S = 1.0


@functools.cache
def of_the_system() -> ssl.SSLContext:
    """Return settings that trust what the system trusts; its certificates take a while to read."""
    return trusting()


@dataclass(frozen=True, slots=True)
class _Call:
    """A request, and how far it has come."""

    method: str
    address: Address
    url: str
    headers: list[tuple[str, str]]
    body: bytes
    timeout_s: float | None
    stream: bool
    progress: RequestProgress = field(default_factory=RequestProgress)


class HttpClient:
    """A client for any event loop; connections belong to the loop that opened them.

    `retries` is the number of further attempts to connect, before anything is sent.
    """

    def __init__(self, *, retries: int = 0, tls: TlsOf = of_the_system, limits: Limits | None = None) -> None:
        self._retries = retries
        self._tls = tls
        self._limits = limits or Limits()
        self._connect_limit = aiohttp.ClientTimeout(sock_connect=self._limits.connect_s)
        self._sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Sessions] = weakref.WeakKeyDictionary()

    async def send(
        self,
        method: str,
        base_url: str,
        path: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        timeout_s: float | None = None,
        *,
        stream: bool = False,
    ) -> UpstreamResponse:
        """Return the response, of any status; raises BadAddress and the errors of `client.errors`.

        Without `timeout_s` there is no limit. With `stream`, a response of events or of unknown length may be streamed;
        `timeout_s` is then also the longest time without data.
        """
        address, url = _target(base_url, path)
        if timeout_s is not None and timeout_s <= 0:  # nobody waits for the response
            raise PredictorTimeout(f"The predictor at {address} was not called: the request's time was over.")
        call = _Call(method, address, url, list(headers), body, timeout_s, stream)
        sessions = self._sessions_of_loop()
        if sessions.ends_connection():
            call.headers.append(("connection", "close"))
        sessions.in_use += 1
        try:
            async with time_limit(timeout_s):
                return await self._connect(call, sessions)
        except asyncio.TimeoutError as error:
            raise self._too_late(call, error, sessions) from error
        finally:
            sessions.in_use -= 1

    async def close(self) -> None:
        if sessions := self._sessions.pop(asyncio.get_running_loop(), None):
            await sessions.close()

    def _sessions_of_loop(self) -> Sessions:
        loop = asyncio.get_running_loop()
        if (sessions := self._sessions.get(loop)) is None:
            sessions = self._sessions[loop] = Sessions(self._limits)
        return sessions

    async def _connect(self, call: _Call, sessions: Sessions) -> UpstreamResponse:
        """Send the request, again while no connection can be opened."""
        loop = asyncio.get_running_loop()
        deadline = math.inf if call.timeout_s is None else loop.time() + call.timeout_s
        for attempt in range(self._retries):
            try:
                return await self._send(call, sessions)
            except PredictorUnreachable:
                pause_s = min(_FIRST_RETRY_S * 2 ** min(attempt, _DOUBLINGS), limits.MAX_RETRY_PAUSE)
                if deadline - loop.time() <= pause_s:
                    raise
            await asyncio.sleep(pause_s)
        return await self._send(call, sessions)

    async def _send(self, call: _Call, sessions: Sessions) -> UpstreamResponse:
        """Send the request, and once more if it crossed the end of a kept connection: the server has not read it."""
        try:
            return await self._exchange(call, sessions.kept)
        except PredictorBroken as error:
            if not _has_crossed(call.progress, error.__cause__):
                raise
        return await self._exchange(call, sessions.new)

    async def _exchange(self, call: _Call, session: aiohttp.ClientSession) -> UpstreamResponse:
        PROGRESS.set(call.progress)
        try:
            response = await session.request(
                call.method,
                call.url,
                headers=call.headers,
                data=call.body if len(call.body) <= _AT_ONCE else io.BytesIO(call.body),
                timeout=self._connect_limit,
                allow_redirects=False,
                ssl=self._tls() if call.address.scheme == "https" else True,
            )
            return await self._read(response, call)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise unreachable(call.address, error) from error
        except aiohttp.ClientError as error:
            raise broken(call.address, error) from error

    async def _read(self, response: aiohttp.ClientResponse, call: _Call) -> UpstreamResponse:
        headers = tuple([(name.lower(), value) for name, value in response.raw_headers])
        if call.stream and _is_endless(response) and not response.content.is_eof():
            return UpstreamResponse(response.status, headers, b"", Pieces(response, call.address, call.timeout_s))
        try:
            return UpstreamResponse(response.status, headers, await self._body(response, call.address))
        finally:
            response.close()  # and the connection, unless the body is complete

    async def _body(self, response: aiohttp.ClientResponse, address: Address) -> bytes:
        if response.status < 200:
            raise broken(address, "it wants to speak another protocol")
        most, size = self._limits.response_bytes, 0
        pieces: list[bytes] = []
        while piece := await response.content.readany():
            size += len(piece)
            if size > most:
                raise broken(address, f"its response has more than {most} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def _too_late(self, call: _Call, error: Exception, sessions: Sessions) -> Exception:
        if call.progress.sent_at is not None:
            why = f"did not answer within {call.timeout_s:g} s"
        elif sessions.open_connections() >= self._limits.connections:
            why = f"was not called: all {self._limits.connections} connections are in use"
        else:
            return unreachable(call.address, error)
        return PredictorTimeout(f"The predictor at {call.address} {why}.")


@functools.lru_cache(maxsize=1024)  # one for each model
def _target(base_url: str, path: str) -> tuple[Address, str]:
    """Return the address and the URL of a request, its path percent-encoded where that is missing."""
    address = Address.parse(base_url)
    return address, f"{address}{quote(path, safe=_SAFE)}"


def _has_crossed(progress: RequestProgress, error: BaseException | None) -> bool:
    """Whether a request met a kept connection that the server was closing."""
    if not (progress.is_kept and isinstance(error, aiohttp.ClientError) and is_silent(error)):
        return False
    return asyncio.get_running_loop().time() - (progress.sent_at or 0) < _CROSSING_S


def _is_endless(response: aiohttp.ClientResponse) -> bool:
    """Whether a successful response has no known length, or is a stream of events."""
    is_sized = "content-length" in response.headers
    are_events = response.headers.get("content-type", "").startswith("text/event-stream")
    return (are_events or not is_sized) and 200 <= response.status < 300
