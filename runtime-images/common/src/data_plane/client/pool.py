"""A pool of connections to one server: reused, opened up to a limit, and closed before they are stale."""

from __future__ import annotations

import asyncio
import collections
import functools
import os
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

from data_plane import limits
from data_plane.client.address import Address
from data_plane.client.connection import Broken, TimedOut, UpstreamConnection, UpstreamResponse
from data_plane.client.errors import PredictorBroken, PredictorTimeout, PredictorUnreachable
from data_plane.client.pieces import Pieces, Silent

TlsOf = Callable[[], ssl.SSLContext]  # asked for each new connection: what is trusted may be renewed

_FIRST_RETRY_S, _DOUBLINGS = 0.1, 10
_SAFE = "/?!$%&'()*+,;=:@"  # in a request's target, beside letters and digits
_UNREAD_ATTEMPTS = 5  # attempts, each on another connection, while the server closes them before it reads the request


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a pool."""

    connections: int = limits.MAX_PREDICTOR_CONNECTIONS
    connect_s: float = 5.0
    # Shorter than the keep-alive of any server (uvicorn: 5 s), so that requests seldom meet a closing connection.
    idle_s: float = 4.0
    # A Service balances connections when they are opened: new pods get their share as old connections end.
    age_s: float = 300.0
    response_bytes: int = field(default_factory=lambda: limits.MAX_RESPONSE)


class Pool:
    """The connections of one event loop to one address. `retries` is the number of further attempts to connect."""

    def __init__(
        self, address: Address, *, retries: int = 0, tls: TlsOf | None = None, limits: Limits | None = None
    ) -> None:
        self.address = address
        self._retries = retries
        self._tls = tls
        self._limits = limits or Limits()
        self._loop = asyncio.get_running_loop()
        self._idle: collections.deque[UpstreamConnection] = collections.deque()
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()
        self._open = 0  # idle, in use, or being opened
        self._sweeper: asyncio.TimerHandle | None = None
        self._host = f"\r\nhost: {address.authority}".encode("latin-1")

    @property
    def size(self) -> int:
        """The number of open connections."""
        return self._open

    async def request(
        self,
        method: str,
        path: str,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes,
        timeout_s: float,
        *,
        stream: bool = False,
    ) -> UpstreamResponse:
        """Return the response, of any status; raises PredictorUnreachable, PredictorBroken and PredictorTimeout.

        If the first header is `host`, it replaces the address's. With `stream` a successful response may be streamed;
        `timeout_s` is then also the longest time without data.
        """
        lines = b"".join(b"\r\n%b: %b" % pair for pair in headers)
        host = b"" if lines.startswith(b"\r\nhost:") else self._host
        line = _request_line(method, self.address.prefix, path)
        message = b"%b%b%b\r\ncontent-length: %d\r\n\r\n%b" % (line, host, lines, len(body), body)
        deadline = self._loop.time() + timeout_s
        for attempts_left in range(_UNREAD_ATTEMPTS, 0, -1):
            connection = await self._acquire(deadline, new=attempts_left < _UNREAD_ATTEMPTS)
            pieces = Pieces(timeout_s, functools.partial(self._failure, timeout_s)) if stream else None
            try:
                return await connection.request(message, self._left(deadline), pieces)
            except (Broken, TimedOut) as error:
                # The server closed the idle connection before it read the request, so a retry cannot run it twice.
                if attempts_left == 1 or not (isinstance(error, Broken) and error.unread):
                    raise self._failure(timeout_s, error) from error
            finally:
                if not (pieces and pieces.begun):  # else the connection releases itself when the body ends
                    self._release(connection)
        raise AssertionError

    async def reach(self) -> None:
        """Open a connection and keep it in the pool; raises PredictorUnreachable and PredictorTimeout."""
        self._release(await self._acquire(self._loop.time() + self._limits.connect_s))

    def close(self) -> None:
        """Close idle connections; one in use closes with its request."""
        self._limits = Limits(connections=self._limits.connections, idle_s=0.0)
        self._sweep()

    async def _acquire(self, deadline: float, *, new: bool = False) -> UpstreamConnection:
        """Return an idle connection or, if there is none or `new` is set, open one within the limit."""
        while True:
            while self._idle and not (new and self._open < self._limits.connections):
                connection = self._idle.pop()  # the most recently used is the least likely to be stale
                if self._is_fresh(connection):
                    return connection
                self._drop(connection)
            if self._open < self._limits.connections:
                return await self._connect(deadline)
            await self._wait_for_one(deadline)

    async def _connect(self, deadline: float) -> UpstreamConnection:
        self._open += 1
        try:
            return await self._open_with_retries(deadline)
        except BaseException:
            self._open -= 1
            self._wake_one()
            raise

    async def _open_with_retries(self, deadline: float) -> UpstreamConnection:
        for attempt in range(self._retries + 1):
            limit_s = min(self._limits.connect_s, self._left(deadline))
            try:
                return await asyncio.wait_for(self._open_one(), limit_s)
            except asyncio.TimeoutError:
                reason = "it does not take connections"
            except OSError as error:
                reason = _reason(error)
            pause_s = min(_FIRST_RETRY_S * 2 ** min(attempt, _DOUBLINGS), limits.MAX_RETRY_PAUSE)
            if attempt == self._retries or deadline - self._loop.time() <= pause_s:
                break
            await asyncio.sleep(pause_s)
        raise PredictorUnreachable(
            f"The predictor at {self.address} cannot be reached: {reason}; "
            "see whether it is ready and whether --predictor_host is right.",
            reason,
        )

    async def _open_one(self) -> UpstreamConnection:
        _, connection = await self._loop.create_connection(
            lambda: UpstreamConnection(self._lost, self._release, self._limits.response_bytes),
            self.address.host,
            self.address.port,
            ssl=self._tls() if self._tls else None,
        )
        return connection

    async def _wait_for_one(self, deadline: float) -> None:
        freed = self._loop.create_future()
        self._waiting.append(freed)
        try:
            await asyncio.wait_for(freed, deadline - self._loop.time())
        except asyncio.TimeoutError as error:
            raise PredictorTimeout(
                f"The predictor at {self.address} was not called: "
                f"all {self._limits.connections} connections are in use."
            ) from error
        except asyncio.CancelledError:
            if freed.done() and not freed.cancelled():
                self._wake_one()  # pass the free connection on
            raise

    def _left(self, deadline: float) -> float:
        """Return the seconds left; raises PredictorTimeout if there are none: nobody waits for the response then."""
        left = deadline - self._loop.time()
        if left <= 0:
            raise PredictorTimeout(f"The predictor at {self.address} was not called: the request's time was over.")
        return left

    def _release(self, connection: UpstreamConnection) -> None:
        if connection.usable and self._limits.idle_s:
            self._idle.append(connection)
            self._sweeper = self._sweeper or self._loop.call_later(self._limits.idle_s, self._sweep)
        else:
            self._drop(connection)
        self._wake_one()

    def _failure(self, timeout_s: float, error: Exception) -> Exception:
        if isinstance(error, TimedOut):
            return PredictorTimeout(f"The predictor at {self.address} did not answer within {timeout_s:g} s.")
        if isinstance(error, Silent):
            return PredictorTimeout(
                f"The predictor at {self.address} sent nothing for {timeout_s:g} s in the middle of its response."
            )
        return PredictorBroken(f"The predictor at {self.address} failed: {error}.")

    def _drop(self, connection: UpstreamConnection) -> None:
        connection.close()
        self._open -= 1

    def _lost(self, connection: UpstreamConnection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)
            self._open -= 1

    def _wake_one(self) -> None:
        while self._waiting:
            freed = self._waiting.popleft()
            if not freed.done():
                freed.set_result(None)
                return

    def _is_fresh(self, connection: UpstreamConnection) -> bool:
        now = self._loop.time()
        return (
            connection.usable
            and now - connection.idle_since < self._limits.idle_s
            and now - connection.opened_at < self._limits.age_s
        )

    def _sweep(self) -> None:
        kept: collections.deque[UpstreamConnection] = collections.deque()
        for connection in self._idle:
            if self._is_fresh(connection):
                kept.append(connection)
            else:
                self._drop(connection)
        self._idle = kept
        self._sweeper = self._loop.call_later(self._limits.idle_s, self._sweep) if kept else None


@functools.lru_cache(maxsize=1024)  # one for each model
def _request_line(method: str, prefix: str, path: str) -> bytes:
    """Return the request line, its path percent-encoded where that is missing."""
    return f"{method} {quote(prefix + path, safe=_SAFE) or '/'} HTTP/1.1".encode()


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    return os.strerror(error.errno) if error.errno else str(error)
