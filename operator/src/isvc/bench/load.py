"""Sends one request again and again: in a closed loop, or at a rate.

A closed loop waits for a slow server, and so sends it less: its latencies leave out what clients would have waited
(coordinated omission). At a rate, a request that finds no free connection waits, and its time begins when it was due.
"""

from __future__ import annotations

import asyncio
import ssl
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict

from isvc.predict.errors import PredictFailed, UnusableRequest
from isvc.predict.fields import is_field, server_url

_REFUSAL_BYTES = 500  # of a body that says why
_RETRY_S = 0.1  # until a connection that was refused is tried again


@dataclass(frozen=True)
class LoadRequest:
    """What is sent again and again; ``headers`` may have a Host that is not that of the URL."""

    method: str
    url: str
    headers: CIMultiDict[str]
    body: bytes | None


def load_request(url: str, headers: dict[str, str], given: Sequence[str], body: bytes | None) -> LoadRequest:
    """Return what is sent to a URL: by POST with a body, which is JSON if nothing else is said, or by GET without one.

    ``given``: headers such as ``NAME: VALUE``, which replace those of the same name. A user and a password in the URL
    are sent as Basic credentials. Raises UnusableRequest for a URL of no server, and for what cannot be a header.
    """
    url, authorization = server_url(url)
    sent = CIMultiDict({} if body is None else {"Content-Type": "application/json"})
    sent.update(headers | ({"Authorization": authorization} if authorization else {}))
    for text in given:
        name, colon, value = text.partition(":")
        if not (colon and is_field(name.strip(), value.strip())):
            raise UnusableRequest(f"{text.strip()!r} cannot be a header; write NAME: VALUE")
        sent[name.strip()] = value.strip()
    return LoadRequest("GET" if body is None else "POST", url, sent, body)


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """How much is sent: ``requests`` at most, at a ``rate`` in requests a second, without one in a closed loop."""

    connections: int
    seconds: float
    requests: int
    rate: float = 0
    timeout: float


@dataclass
class Responses:
    """What came back: times in seconds, and as ``refusals`` how the first body of each status but 2xx begins."""

    latencies: array[float] = field(default_factory=lambda: array("d"))
    statuses: Counter[int] = field(default_factory=Counter)
    refusals: dict[int, bytes] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False
    seconds: float = 0

    @property
    def failed(self) -> int:
        """How many got another status than 2xx, or no response."""
        return self.errors.total() + sum(count for status, count in self.statuses.items() if not 200 <= status < 300)


async def load(request: LoadRequest, plan: LoadPlan, tls: ssl.SSLContext | None = None) -> Responses:
    """Send all requests, or those until it is cancelled, which Ctrl-C does; return what came back until then.

    Raises PredictFailed if no first connection can be opened.
    """
    seen, began = Responses(), perf_counter()
    ends = began + min(plan.seconds, plan.requests / plan.rate if plan.rate else plan.seconds)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=plan.connections, ssl=tls or True),
        timeout=aiohttp.ClientTimeout(total=plan.timeout),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "isvc-bench"},
        skip_auto_headers=("Accept-Encoding", "Content-Type"),
        auto_decompress=False,
    ) as session:
        sender = _Sender(session, request, plan, seen)
        due = _due(plan, began, ends)
        try:
            async with asyncio.TaskGroup() as sending:
                for _ in range(plan.connections):
                    sending.create_task(sender.send_each(due, until=ends + plan.timeout))
            if plan.rate:  # the time of the last request belongs to the run: else, few would look like a higher rate
                await asyncio.sleep(max(0.0, ends - perf_counter()))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        except asyncio.CancelledError:
            seen.interrupted = True
    seen.seconds = perf_counter() - began
    return seen


def _due(plan: LoadPlan, began: float, ends: float) -> Iterator[float]:
    """Yield when each request is due: without a rate, as soon as a connection is free."""
    for number in range(plan.requests):
        due = began + number / plan.rate if plan.rate else perf_counter()
        if due >= ends:
            return
        yield due


@dataclass(frozen=True)
class _Sender:
    session: aiohttp.ClientSession
    request: LoadRequest
    plan: LoadPlan
    seen: Responses

    async def send_each(self, requests: Iterator[float], *, until: float) -> None:
        """Send one request after the other, each when it is due and the one before has its response."""
        for due in requests:
            if (wait := due - perf_counter()) > 0:
                await asyncio.sleep(wait)
                await self._send(perf_counter())  # that a timer is late, by up to a millisecond, is not the server's
            elif perf_counter() < until:
                await self._send(due)
            else:
                self.seen.errors["not sent: no connection was free"] += 1

    async def _send(self, began: float) -> None:
        sent, seen = self.request, self.seen
        try:
            async with self.session.request(
                sent.method,
                sent.url,
                headers=sent.headers,
                data=sent.body,
                allow_redirects=False,  # the time of another server is not asked for
                server_hostname=urlsplit(f"//{sent.headers.get('Host', '')}").hostname,
            ) as response:
                content = await response.read()
        except TimeoutError:
            seen.errors[f"no response in {self.plan.timeout:g} s"] += 1
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
            seen.latencies.append(perf_counter() - began)
            seen.statuses[response.status] += 1
            if not 200 <= response.status < 300:
                seen.refusals.setdefault(response.status, content[:_REFUSAL_BYTES])
