"""Sinks of payload loggers: the events that a scripted server got, and its behaviours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cloudevents.http import CloudEvent, from_http

from tests.support.object_stores.proxy import Answer, Request, proxy
from tests.support.object_stores.tls import Certificate
from tests.support.scripted_server import Behaviour, Visitor


def responds(*statuses: int, body: bytes = b"") -> Behaviour:
    """Respond to the requests of all connections with these statuses, one after the other, and then with the last."""
    left = list(statuses)

    async def behave(visitor: Visitor) -> None:
        while True:
            await visitor.request()
            status = left.pop(0) if len(left) > 1 else left[0]
            await visitor.say(b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))

    return behave


async def resets(visitor: Visitor) -> None:
    """Reset the connection when the request has arrived."""
    await visitor.request()
    visitor.reset()


async def floods(visitor: Visitor) -> None:
    """Respond without an end."""
    await visitor.request()
    await visitor.say(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
    while True:
        await visitor.say(b"x" * 65536)


def event_of(request: bytes) -> CloudEvent:
    """Return the event of a raw request, its data as bytes."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[1:]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return from_http(headers, body, data_unmarshaller=bytes)


def told(requests: Iterable[bytes]) -> list[tuple[str, str, bytes]]:
    """Return the type (its last part), the id and the data of each event, in order of the ids and types."""
    return _told(map(event_of, requests))


def _told(events: Iterable[CloudEvent]) -> list[tuple[str, str, bytes]]:
    return sorted((one["type"].rpartition(".")[2], one["id"], bytes(one.data or b"")) for one in events)


@dataclass
class Sink:
    """A sink's address, and the events that it got."""

    url: str
    events: list[CloudEvent] = field(default_factory=list)

    def told(self) -> list[tuple[str, str, bytes]]:
        """Return what `told` does, of all events so far."""
        return _told(list(self.events))


@contextlib.contextmanager
def sinking(certificate: Certificate | None = None) -> Iterator[Sink]:
    """A sink in a thread, for servers that are processes; by HTTPS with a certificate."""
    sink = Sink("")

    def take(request: Request) -> Answer:
        sink.events.append(from_http(dict(request.headers), request.body, data_unmarshaller=bytes))
        return Answer(200)

    with proxy(None, take, certificate) as server:
        sink.url = f"{server.url}/in"
        yield sink
