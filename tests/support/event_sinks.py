"""Sinks of payload loggers: the events that a scripted server got, and its behaviours."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterable
from typing import Self

from cloudevents.http import CloudEvent, from_http

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


class Sink:
    """A sink of its own thread, for servers that are processes; by HTTPS with a certificate."""

    def __init__(self, certificate: Certificate | None = None) -> None:
        self.events: list[CloudEvent] = []
        events = self.events

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                events.append(from_http(dict(self.headers.items()), body, data_unmarshaller=bytes))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.chain, certificate.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/in"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def told(self) -> list[tuple[str, str, bytes]]:
        """Return what `told` does, of all events so far."""
        return _told(list(self.events))
