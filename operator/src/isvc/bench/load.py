"""Sends one request again and again: in a closed loop, or at a rate.

A closed loop waits for a slow server, and so sends it less: its latencies leave out what clients would have waited
(coordinated omission). At a rate, the time of a request begins when it is due, whatever came back before.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import ssl
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter, process_time
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from isvc.predict.errors import PredictFailed, UnusableRequest
from isvc.predict.fields import is_field, server_url

_REFUSAL_BYTES = 500  # of a body that says why
_RETRY_S = 0.1  # until a connection that was refused is tried again


@dataclass(frozen=True)
class LoadRequest:
    """What is sent again and again; ``headers`` may have a Host that is not that of the URL."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


def load_request(url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> LoadRequest:
    """Return what is sent to a URL; raises UnusableRequest for one of no server, and for an invalid header.

    A user and a password in the URL are sent as Basic credentials.
    """
    url, authorization = server_url(url)
    if not url.isascii():
        raise UnusableRequest(f"{url!r} has letters that a URL cannot have; write them as %XX")
    for name, value in headers.items():
        if not is_field(name, value):
            raise UnusableRequest(f"{f'{name}: {value}'!r} cannot be a header; write NAME: VALUE")
    if not method.isalpha():
        raise UnusableRequest(f"{method!r} is not a method of HTTP")
    credentials = {"Authorization": authorization} if authorization else {}
    return LoadRequest(method, url, {**credentials, **headers}, body)


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """How much is sent; ``requests`` at most. Without a ``rate``, in requests a second, it is a closed loop.

    ``timeout``: seconds until a request counts as failed.
    """

    connections: int
    seconds: float
    requests: int
    rate: float = 0
    timeout: float


@dataclass
class Responses:
    """What came back; all times are in seconds.

    ``late``: between when a request was due and when it was sent. ``unsent``: requests that were due, and had found no
    free connection by the end. ``received``: bytes of bodies. ``refusals``: the beginning of the first body of each
    status other than 2xx.
    """

    latencies: array[float] = field(default_factory=lambda: array("d"))
    late: array[float] = field(default_factory=lambda: array("d"))
    statuses: Counter[int] = field(default_factory=Counter)
    refusals: dict[int, bytes] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    unsent: int = 0
    received: int = 0
    interrupted: bool = False
    seconds: float = 0
    cpu_seconds: float = 0

    @property
    def failed(self) -> int:
        """How many got another status than 2xx, or no response."""
        refused = sum(count for status, count in self.statuses.items() if not 200 <= status < 300)
        return refused + self.errors.total() + self.unsent


def run(request: LoadRequest, plan: LoadPlan, *, tls: ssl.SSLContext | None = None) -> Responses:
    """Send all requests and return what came back; raises PredictFailed if no first connection can be opened."""
    with asyncio.Runner(loop_factory=_precise_loop) as runner:
        return runner.run(load(request, plan, tls))


async def load(request: LoadRequest, plan: LoadPlan, tls: ssl.SSLContext | None = None) -> Responses:
    """Send all requests, or those until it is cancelled, which Ctrl-C does; return what came back until then."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=plan.connections, ssl=tls or True),
        timeout=aiohttp.ClientTimeout(total=plan.timeout),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "isvc-bench"},
        skip_auto_headers=("Accept-Encoding", "Content-Type"),
        auto_decompress=False,
    ) as session:
        return await _Load(request, plan, session).run()


class _Load:
    def __init__(self, request: LoadRequest, plan: LoadPlan, session: aiohttp.ClientSession) -> None:
        self._request = request
        self._plan = plan
        self._session = session
        self._url = URL(request.url, encoded=True)
        host = next((value for name, value in request.headers.items() if name.lower() == "host"), "")
        self._server_hostname = urlsplit(f"//{host}").hostname
        self._seen = Responses()

    async def run(self) -> Responses:
        cpu, started = process_time(), perf_counter()
        self._ends = started + self._plan.seconds
        due = self._due(started)
        try:
            async with asyncio.TaskGroup() as sending:
                for _ in range(self._plan.connections):
                    sending.create_task(self._in_turn(due))
            if self._plan.rate:
                # The time of the last request belongs to the run: without it, few would look like a higher rate.
                last = min(self._ends, started + self._plan.requests / self._plan.rate)
                await asyncio.sleep(max(0.0, last - perf_counter()))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        except asyncio.CancelledError:
            self._seen.interrupted = True
        self._seen.seconds, self._seen.cpu_seconds = perf_counter() - started, process_time() - cpu
        return self._seen

    def _due(self, started: float) -> Iterator[float]:
        """Yield when each request is due: without a rate, as soon as a connection is free."""
        for number in range(self._plan.requests):
            due = started + number / self._plan.rate if self._plan.rate else perf_counter()
            if due >= self._ends:
                return
            yield due

    async def _in_turn(self, requests: Iterator[float]) -> None:
        """Send one request after the other, each when it is due and the one before has its response."""
        for due in requests:
            if (wait := due - perf_counter()) > 0:
                await asyncio.sleep(wait)
            if perf_counter() >= self._ends + self._plan.timeout:
                self._seen.unsent += 1
                continue
            if self._plan.rate:
                self._seen.late.append(perf_counter() - due)
            await self._send(due)

    async def _send(self, due: float) -> None:
        sent, seen = self._request, self._seen
        try:
            async with self._session.request(
                sent.method,
                self._url,
                headers=sent.headers,
                data=sent.body or None,
                allow_redirects=False,  # the time of another server is not asked for
                server_hostname=self._server_hostname,
            ) as response:
                content = await response.read()
                seen.received += len(content)
        except TimeoutError:
            seen.errors[f"no response in {self._plan.timeout:g} s"] += 1
        except aiohttp.ClientConnectorError as error:
            if not seen.latencies and not seen.errors:
                raise PredictFailed(f"cannot connect to {error.host}:{error.port}: {error.os_error}") from error
            seen.errors[f"cannot connect: {error.os_error}"] += 1
            await asyncio.sleep(_RETRY_S)
        except aiohttp.ClientResponseError as error:
            seen.errors[f"the response is not HTTP ({error.message})"] += 1
        except aiohttp.ClientError:
            seen.errors["the server closed the connection"] += 1
        else:
            seen.latencies.append(perf_counter() - due)
            seen.statuses[response.status] += 1
            if not 200 <= response.status < 300:
                seen.refusals.setdefault(response.status, content[:_REFUSAL_BYTES])


class _PreciseSelector(selectors.DefaultSelector):
    """Waits as long as it is told. A selector's own wait is rounded up to a millisecond."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def _precise_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(_PreciseSelector())
