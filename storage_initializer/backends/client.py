"""The HTTP client of web servers, hubs, and the services that hand out credentials: urllib3, with bounds that it lacks,
and errors that say what to do."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from http.client import HTTPException, IncompleteRead
from threading import Event, Lock, Timer
from time import monotonic
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ProxyError

from storage_initializer.backends.proxies import Proxies, Proxy
from storage_initializer.backends.trust import Trust, tls_context
from storage_initializer.errors import (
    CertificateError,
    InitializerError,
    ServerError,
    UnexpectedResponseError,
    UnreachableError,
)
from storage_initializer.limits import MAX_RESPONSE, MIN_RATE, TRICKLE_WINDOW
from storage_initializer.plan import RequestPolicy

_PARTIAL = 206
# Overloaded, restarting, or rate-limited.
_MAY_PASS = (408, 429, 500, 502, 503, 504)
# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
_MISMATCHES = (62, 64)
_CONNECTIONS = 8


@dataclass(frozen=True)
class WholeResponse:
    """A short response, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class OpenResponse:
    """A long response to a request for ``url``, whose body is read as it arrives.

    A server that sends less than ``MIN_RATE`` over ``window_s`` seconds of waiting counts as one that does not respond.
    """

    url: str = field(repr=False)
    window_s: float
    _response: urllib3.BaseHTTPResponse
    _waited_s: float = 0.0
    _received: int = 0

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def chunked(self) -> bool:
        """Whether the body is sent in chunks, so that its end is marked and its length unknown."""
        return self.headers.get("Transfer-Encoding", "").lower() == "chunked"

    def readinto(self, buffer: memoryview, /) -> int:
        begun = monotonic()
        # Between chunks much may be sent that is not a part of the body.
        with _connection_errors(self._host), self._in_time() if self.chunked else nullcontext():
            piece = self._response.read1(len(buffer), decode_content=False)
            self._waited_s += monotonic() - begun
            self._received += len(piece)
            if self._waited_s > self.window_s:
                if self._received < MIN_RATE * self._waited_s:
                    raise TimeoutError
                self._waited_s, self._received = 0.0, 0
        buffer[: len(piece)] = piece
        return len(piece)

    def read_start(self, size: int) -> bytes:
        """Return the first bytes, ``size`` at most."""
        with _connection_errors(self._host), self._in_time():
            return self._response.read(size, decode_content=False)

    def read(self) -> bytes:
        with _connection_errors(self._host), self._in_time():
            return self._response.read(MAX_RESPONSE, decode_content=False)

    def check_start(self, start: int) -> None:
        """Raise UnexpectedResponseError if a partial response is not the part that was requested."""
        sent = self.headers.get("Content-Range", "")
        if self.status == _PARTIAL and not sent.startswith(f"bytes {start}-"):
            raise UnexpectedResponseError(
                f"{self._host} sends {sent[:40] or 'a part'} where the bytes from {start} were requested; see its log"
            )

    def _cut(self) -> None:
        with suppress(OSError, RuntimeError, ValueError):
            self._response.shutdown()

    @property
    def _host(self) -> str:
        return urlsplit(self.url).netloc

    def _in_time(self) -> AbstractContextManager[None]:
        return _in_time(self.window_s, self._cut)


class _BoundedConnection(HTTPConnection):
    """A connection that is made, and whose response begins, in a bounded time."""

    def connect(self) -> None:
        try:
            with self._in_time():
                super().connect()
        except TimeoutError as error:
            if self.proxy:
                raise ProxyError("no connection in time", error) from error
            raise

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]
        with self._in_time():
            return super().getresponse()

    def _in_time(self) -> AbstractContextManager[None]:
        return _in_time(TRICKLE_WINDOW * float(self.timeout or 0), self._cut)

    def _cut(self) -> None:
        with suppress(OSError):
            if self.sock:
                self.sock.shutdown(socket.SHUT_RDWR)


class _BoundedTlsConnection(_BoundedConnection, HTTPSConnection):
    """The same, with TLS."""


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _BoundedConnection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _BoundedTlsConnection


class Client:
    """Used by several threads at once."""

    def __init__(self, trust: Trust, policy: RequestPolicy, proxies: Proxies) -> None:
        trust.check()
        self._trust = trust
        self._policy = policy
        self._proxies = proxies
        self._managers: dict[tuple[str, Proxy | None], urllib3.PoolManager] = {}
        self._lock = Lock()

    def describe_route(self, url: str) -> str:
        return self._proxies.describe(url)

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
        host, proxy = urlsplit(url).netloc, self._proxies.proxy_for(urlsplit(url))
        with _connection_errors(host, proxy):
            # Who calls follows redirects (``redirects``), and ``retry`` tries again.
            response = self._manager(urlsplit(url).scheme, proxy).request(
                method, url, body=content, headers=headers, redirect=False, retries=False, preload_content=False
            )
        try:
            if response.status == 407 and proxy:
                raise proxy.refusal(host, "407 Proxy Authentication Required")
            if response.status in _MAY_PASS:
                raise ServerError(
                    f"{host}{self.describe_route(url)} responds with {response.status} {response.reason}; "
                    "see its log, or send fewer requests"
                )
            yield OpenResponse(url, TRICKLE_WINDOW * self._policy.read_s, response)
        finally:
            # A connection whose response is not at its end cannot be used again.
            response.close()
            response.release_conn()

    def _manager(self, scheme: str, proxy: Proxy | None) -> urllib3.PoolManager:
        with self._lock:
            if (scheme, proxy) not in self._managers:
                self._managers[scheme, proxy] = self._new_manager(scheme, proxy)
            return self._managers[scheme, proxy]

    def _new_manager(self, scheme: str, proxy: Proxy | None) -> urllib3.PoolManager:
        timeout = urllib3.Timeout(connect=self._policy.connect_s, read=self._policy.read_s)
        # To read the system's certificates takes longer than a small model.
        context = tls_context(self._trust) if scheme == "https" else None
        manager: urllib3.PoolManager
        if proxy:
            login = urllib3.make_headers(proxy_basic_auth=unquote(proxy.login)) if proxy.login else None
            manager = urllib3.ProxyManager(
                f"http://{proxy}", proxy_headers=login, maxsize=_CONNECTIONS, timeout=timeout, ssl_context=context
            )
        else:
            manager = urllib3.PoolManager(maxsize=_CONNECTIONS, timeout=timeout, ssl_context=context)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
        return manager


@contextmanager
def _in_time(seconds: float, cut: Callable[[], object]) -> Iterator[None]:
    """Raise TimeoutError where the block takes longer; ``cut`` ends what it waits for.

    The timeout of a read does not notice a server that sends a byte now and then.
    """
    late = Event()

    def expire() -> None:
        late.set()
        cut()

    timer = Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError


@contextmanager
def _connection_errors(host: str, proxy: Proxy | None = None) -> Iterator[None]:
    try:
        yield
    except (HTTPError, HTTPException, OSError) as error:
        cause = _cause_of(error)
        if proxy and isinstance(error, ProxyError):
            raise proxy.refusal(host, _why(cause)) from None
        raise _explained(host, cause) from None


def _cause_of(error: BaseException) -> BaseException:
    """Return the error of the standard library below one of urllib3."""
    while inner := error.__cause__ or next((each for each in error.args if isinstance(each, BaseException)), None):
        error = inner
    return error


def _explained(host: str, error: BaseException) -> InitializerError:
    match error:
        case ssl.SSLCertVerificationError():
            return _untrusted(host, error)
        case socket.gaierror():
            return UnreachableError.unknown_name(host, error.strerror or str(error))
        case IncompleteRead():
            return ServerError(f"{host} closed the connection {error.expected} bytes before the end; see its log")
        case TimeoutError():
            return UnreachableError(f"{host} does not respond in time; check whether a network policy blocks it")
        case ConnectionRefusedError():
            return UnreachableError(f"{host} refuses connections; correct the endpoint and port, or start it")
        case ssl.SSLError():
            return UnreachableError(f"{host} does not speak TLS ({error.reason}); use http:// if it is meant so")
    return UnreachableError(f"the connection to {host} broke ({_why(error)}); see its log")


def _untrusted(host: str, error: ssl.SSLCertVerificationError) -> CertificateError:
    why = error.verify_message.rstrip(".")
    if error.verify_code in _MISMATCHES:
        return CertificateError(f"the certificate of {host} is another host's ({why}); use the name it was made for")
    return CertificateError.untrusted(host, why)


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
