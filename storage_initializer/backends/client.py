"""The HTTP client of all remote sources: kept connections, timeouts, TLS trust, and errors that say what to do.

It is built on the standard library, for three reasons: a body is read into the caller's buffer without a copy, every
header of a response is available (checksums, regions), and it was the fastest that was measured (docs/decisions).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from typing import cast
from urllib.parse import SplitResult, urlsplit

from storage_initializer.backends.proxies import Proxies
from storage_initializer.backends.response import StoreResponse
from storage_initializer.backends.trust import Trust, tls_context
from storage_initializer.errors import CertificateError, ServerError, UnexpectedResponseError, UnreachableError
from storage_initializer.limits import MAX_RESPONSE
from storage_initializer.plan import RequestPolicy

_PARTIAL = 206
# Overloaded, restarting, or rate-limited.
_MAY_PASS = (408, 429, 500, 502, 503, 504)
# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
_MISMATCHES = (62, 64)


@dataclass(frozen=True)
class WholeResponse:
    """A short response, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class OpenResponse:
    """A long response to a request for ``url``, whose body is read as it arrives."""

    url: str = field(repr=False)
    status: int
    headers: Mapping[str, str]
    _response: StoreResponse
    _host: str
    _left: int | None = field(init=False)

    def __post_init__(self) -> None:
        self._left = self._response.length

    def readinto(self, buffer: memoryview, /) -> int:
        with _connection_errors(self._host):
            count = self._response.readinto(buffer)
        if self._left is not None:
            self._left -= count
            if self._left and not count:
                raise ServerError(f"{self._host} closed the connection {self._left} bytes before the end; see its log")
        return count

    @property
    def chunked(self) -> bool:
        """Whether the body is sent in chunks, so that its end is marked and its length unknown."""
        return bool(self._response.chunked)

    def read_start(self, size: int) -> bytes:
        """Return the first bytes, ``size`` at most."""
        with _connection_errors(self._host):
            return self._response.read(size)

    def check_start(self, start: int) -> None:
        """Raise UnexpectedResponseError if a partial response is not the part that was requested."""
        sent = self.headers.get("Content-Range", "")
        if self.status == _PARTIAL and not sent.startswith(f"bytes {start}-"):
            raise UnexpectedResponseError(
                f"{self._host} sends {sent[:40] or 'a part'} where the bytes from {start} were requested; see its log"
            )

    def read(self) -> bytes:
        with _connection_errors(self._host):
            content = self._response.read(MAX_RESPONSE)
        if self._left and len(content) < self._left:
            raise ServerError(f"{self._host} closed the connection in the middle of a response; see its log")
        return content


class Client:
    """Used by several threads at once."""

    def __init__(self, trust: Trust, policy: RequestPolicy, proxies: Proxies) -> None:
        trust.check()
        self._trust = trust
        self._policy = policy
        self._proxies = proxies
        self._idle: dict[tuple[str, str], list[HTTPConnection]] = {}
        # With their sockets, as a connection that is closed after its response drops its own.
        self._busy: dict[HTTPConnection, socket.socket] = {}
        self._lock = Lock()
        self._closed = False

    def describe_route(self, url: str) -> str:
        """Return the proxy to this URL, for the log; empty for a direct connection."""
        proxy = self._proxies.proxy_for(urlsplit(url))
        return f" (by the proxy {proxy})" if proxy else ""

    def fetch(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, *, content: bytes | None = None
    ) -> WholeResponse:
        with self.request(method, url, headers or {}, content=content) as body:
            return WholeResponse(body.status, body.headers, body.read())

    @contextmanager
    def request(
        self, method: str, url: str, headers: Mapping[str, str], *, content: bytes | None = None
    ) -> Iterator[OpenResponse]:
        """Send a request. Statuses that may pass raise ServerError; the body need not be read to its end."""
        parts = urlsplit(url)
        with _connection_errors(parts.netloc):
            connection, response = self._send(method, parts, headers, content=content)
        try:
            if response.status == 407 and (proxy := self._proxies.proxy_for(parts)):
                raise proxy.refusal(parts.netloc)
            if response.status in _MAY_PASS:
                raise ServerError(
                    f"{parts.netloc}{self.describe_route(url)} responds with {response.status} {response.reason}; "
                    "see its log, or send fewer requests"
                )
            yield OpenResponse(url, response.status, response.headers, response, parts.netloc)
        finally:
            with self._lock:
                del self._busy[connection]
                keep = response.isclosed() and connection.sock is not None and not self._closed
                if keep:
                    self._idle.setdefault((parts.scheme, parts.netloc), []).append(connection)
            if not keep:
                response.close()
                connection.close()

    def reopen(self) -> None:
        with self._lock:
            self._closed = False

    def close(self) -> None:
        """Close all connections: reads in other threads fail at once."""
        with self._lock:
            self._closed = True
            for sock in self._busy.values():
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            for idle in self._idle.values():
                for connection in idle:
                    connection.close()
            self._idle.clear()

    def _send(
        self, method: str, url: SplitResult, headers: Mapping[str, str], *, content: bytes | None
    ) -> tuple[HTTPConnection, StoreResponse]:
        """Send on a kept connection, and once more on a new one if the server has just closed the kept one."""
        target, headers = self._addressed(url, headers)
        if kept := self._take(url):
            with suppress(HTTPException, ConnectionError):
                return kept, self._exchange(kept, method, target, headers=headers, content=content)
        connection = self._connect(url)
        return connection, self._exchange(connection, method, target, headers=headers, content=content)

    def _addressed(self, url: SplitResult, headers: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        """Return the request's target and headers. A proxy needs the whole URL, unless the connection is a tunnel."""
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        proxy = self._proxies.proxy_for(url)
        if proxy and url.scheme == "http":
            return f"http://{url.netloc}{target}", {**headers, **proxy.headers}
        return target, headers

    def _take(self, url: SplitResult) -> HTTPConnection | None:
        with self._lock:
            idle = self._idle.get((url.scheme, url.netloc))
            return idle.pop() if idle else None

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """Created at its first use: to read the system's certificates takes longer than a small model."""
        return tls_context(self._trust)

    def _connect(self, url: SplitResult) -> HTTPConnection:
        proxy = self._proxies.proxy_for(url)
        host, port = (proxy.host, proxy.port) if proxy else (url.hostname or "", url.port)
        connection = (
            HTTPSConnection(host, port, timeout=self._policy.connect_s, context=self._context)
            if url.scheme == "https"
            else HTTPConnection(host, port, timeout=self._policy.connect_s)
        )
        connection.response_class = StoreResponse
        if proxy and url.scheme == "https":
            connection.set_tunnel(url.hostname or "", url.port, proxy.headers)
        with proxy.connecting_through(url.netloc) if proxy else nullcontext(), _closed_on_error(connection):
            connection.connect()
        connection.sock.settimeout(self._policy.read_s)
        return connection

    def _exchange(
        self, connection: HTTPConnection, method: str, target: str, *, headers: Mapping[str, str], content: bytes | None
    ) -> StoreResponse:
        with self._lock:
            closed = self._closed
            self._busy[connection] = connection.sock
        try:
            if closed:
                raise ConnectionAbortedError("stopped")
            connection.request(method, target, content, dict(headers))
            return cast(StoreResponse, connection.getresponse())
        except BaseException:
            with self._lock:
                del self._busy[connection]
            connection.close()
            raise


@contextmanager
def _closed_on_error(connection: HTTPConnection) -> Iterator[None]:
    """Close the connection where the proxy is reached, and then not the server."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def _connection_errors(host: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise CertificateError(_untrusted(host, error)) from None
    except socket.gaierror as error:
        raise UnreachableError(f"the name {host} is not known ({error.strerror}); correct the endpoint") from None
    except TimeoutError:
        raise UnreachableError(f"{host} does not respond in time; check whether a network policy blocks it") from None
    except ConnectionRefusedError:
        raise UnreachableError(f"{host} refuses connections; correct the endpoint and port, or start it") from None
    except ssl.SSLError as error:
        raise UnreachableError(f"{host} does not speak TLS ({error.reason}); use http:// if it is meant so") from None
    except (OSError, HTTPException) as error:
        raise UnreachableError(f"the connection to {host} broke ({_why(error)}); see its log") from None


def _untrusted(host: str, error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message.rstrip(".")
    if error.verify_code in _MISMATCHES:
        return f"the certificate of {host} is another host's ({why}); use the name it was made for"
    return (
        f"the certificate of {host} is not trusted ({why}); "
        "give its CA in a bundle (annotation serving.kserve.io/s3-cabundle, or caBundleConfigMapName)"
    )


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
