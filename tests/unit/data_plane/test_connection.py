"""A server on a real socket, byte for byte: offered upgrades, heads without an end, and what is not HTTP."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from data_plane.limits import MAX_FIELDS, MAX_HEAD
from data_plane.messages import Request, Response, json_response
from data_plane.server import connection
from data_plane.server.app import App
from data_plane.server.budget import ByteBudget
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Route, Router
from data_plane.server.run import HttpServer, listen
from tests.support.raw_client import Visitor
from tests.support.waiting import eventually

H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
WEBSOCKET = "Connection: upgrade\r\nUpgrade: websocket\r\n"
CHUNKS = b'5\r\n{"ins\r\nc\r\ntances":[1]}\r\n0\r\n\r\n'
CHUNKED = b"POST /headers HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = b'{"instances":[1]}'


@dataclass
class Served:
    """A server; requests to `/held` are answered when the test says so."""

    port: int
    metrics: ServerMetrics
    loop: asyncio.AbstractEventLoop
    budget: ByteBudget
    release: asyncio.Event = field(default_factory=asyncio.Event)

    def release_held(self) -> None:
        self.loop.call_soon_threadsafe(self.release.set)

    def has_read(self, size: int) -> bool:
        """This many bytes of heads and bodies that have not come completely."""
        return self.budget.held == size

    def visit(self) -> Visitor:
        return Visitor(socket.create_connection(("127.0.0.1", self.port), timeout=20))


async def echo(request: Request) -> Response:
    return json_response({"method": request.method, "path": request.path, "body": request.body.decode()})


async def tell_headers(request: Request) -> Response:
    return json_response([[name.decode(), value.decode()] for name, value in request.headers])


async def tell_id(request: Request) -> Response:
    return json_response(request.id)


async def tell_status(request: Request) -> Response:
    return Response(b"a body", int(request.params["status"]), headers=((b"x-kind", b"odd"),))


@pytest.fixture(scope="module", params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    loop = request.param()
    listener = listen("127.0.0.1", 0)
    here = Served(listener.getsockname()[1], ServerMetrics(), loop, ByteBudget())

    async def held(asked: Request) -> Response:
        await here.release.wait()
        return await echo(asked)

    routes = [Route(method, "/echo", echo) for method in ("GET", "POST")] + [
        Route("POST", "/held", held),
        Route("POST", "/headers", tell_headers),
        Route("GET", "/id", tell_id),
        Route("GET", "/status/{status}", tell_status),
    ]
    server = HttpServer(App(Router(routes), here.metrics, 1_000_000, here.budget), listener, grace_period_s=5)
    thread = threading.Thread(target=loop.run_until_complete, args=(server.run_until_drained(),))
    thread.start()
    yield here
    loop.call_soon_threadsafe(server.drain)
    thread.join()
    loop.close()


def post(body: bytes = BODY, headers: str = "", path: str = "/echo") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def posted(body: bytes = BODY, path: str = "/echo") -> dict[str, str]:
    return {"method": "POST", "path": path, "body": body.decode()}


# --- upgrades ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("offer", [H2C, WEBSOCKET], ids=["h2c", "websocket"])
def test_a_request_that_offers_an_upgrade_is_answered_as_any_other(served: Served, offer: str) -> None:
    with served.visit().send(post(headers=offer)) as visitor:
        assert visitor.echoed() == posted()


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/nowhere", 404), ("PUT", "/echo", 405)])
def test_a_client_that_asks_first_and_gets_an_answer_may_leave_the_body_out(
    served: Served, method: str, path: str, status: int
) -> None:
    head = f"{method} {path} HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 17\r\n\r\n"
    with served.visit().send(head.encode()) as visitor:
        answered, headers, _ = visitor.answer()
        assert (answered, headers["connection"], visitor.is_closed()) == (status, "close", True)


def test_requests_after_it_are_answered_in_turn(served: Served) -> None:
    bodies = [b"1", b"22", b"", b"333", b"4444"]
    offers = [H2C, "", H2C, H2C, ""]
    together = b"".join(post(body, offer) for body, offer in zip(bodies, offers, strict=True))
    with served.visit().send(together) as visitor:
        assert [visitor.echoed() for _ in bodies] == [posted(body) for body in bodies]
        assert visitor.send(post(b"later")).echoed() == posted(b"later")


# --- ids and lengths ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", ["ü-€".encode(), b"\xfc"], ids=["utf-8", "latin-1"])
def test_an_id_comes_back_as_it_came_and_is_readable_in_documents(served: Served, sent: bytes) -> None:
    readable = {"ü-€".encode(): "ü-€", b"\xfc": "ü"}[sent]
    with served.visit() as visitor:
        visitor.send(*(b"GET %b HTTP/1.1\r\nx-request-id: %b\r\n\r\n" % (path, sent) for path in (b"/id", b"/x")))
        (_, *good), (_, *bad) = visitor.answer(), visitor.answer()
    assert [headers["x-request-id"].encode("latin-1") for headers, _ in (good, bad)] == [sent, sent]
    assert (good[1], bad[1]["request_id"]) == (readable, readable)


def test_a_length_may_have_any_number_of_zeros(served: Served) -> None:
    head = b"POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %b17 \r\n\r\n" % (b"0" * 5000)
    with served.visit().send(head) as visitor:
        assert visitor.line() == b"HTTP/1.1 100 Continue"
        assert visitor.send(BODY).echoed() == posted()


def test_head_is_get_without_the_body(served: Served) -> None:
    def ask(method: str) -> bytes:
        return f"{method} /id HTTP/1.1\r\nHost: x\r\nx-request-id: 7\r\n\r\n".encode()

    with served.visit().send(ask("HEAD") + ask("GET")) as visitor:
        head = visitor.line().decode().split("\r\n")
        _, headers, document = visitor.answer()

    assert document == "7"
    assert head[0] == "HTTP/1.1 200 OK"
    assert {f"{name}: {headers[name]}" for name in ("content-type", "content-length", "x-request-id")} <= {*head}


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_whose_status_has_no_body_has_none(served: Served, status: int) -> None:
    def ask(path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: x\r\nx-request-id: 7\r\n\r\n".encode()

    with served.visit().send(ask(f"/status/{status}") + ask("/id")) as visitor:
        head = visitor.line().decode().split("\r\n")

        assert visitor.echoed() == "7"
    assert head[0].startswith(f"HTTP/1.1 {status} ")
    assert {"x-request-id: 7", "x-kind: odd"} <= {*head}
    assert not [line for line in head if line.startswith("content-")]


# --- what cannot be read -----------------------------------------------------------------------------


def refusal(visitor: Visitor) -> tuple[int, Any]:
    """The next answer, which is an error in the one form, and the connection's last."""
    status, headers, document = visitor.answer()
    assert (headers["content-type"], headers["connection"]) == ("application/json", "close")
    assert (document["component"], document["request_id"]) == ("server", headers["x-request-id"])
    assert visitor.is_closed()
    return status, document["error"]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GARBAGE\r\n\r\n", "Invalid method encountered"),
        (b"GET /echo HTTP/1.1\r\nbad header\r\n\r\n", "Invalid header token"),
        (b"POST /echo HTTP/1.1\r\nContent-Length: abc\r\n\r\n", "Invalid character in Content-Length"),
        (
            b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Transfer-Encoding can't be present with Content-Length",
        ),
        (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", "Invalid target"),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "Invalid character in chunk size"),
        (
            f"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n{H2C}\r\nzz\r\n".encode(),
            "Invalid character in chunk size",
        ),
    ],
    ids=["no-http", "header", "length", "two-lengths", "connect", "chunk", "chunk-after-upgrade"],
)
def test_what_cannot_be_read_is_answered_in_the_form_of_errors(served: Served, sent: bytes, reason: str) -> None:
    with served.visit().send(sent) as visitor:
        assert refusal(visitor) == (400, f"The request is not HTTP/1.1 that can be read: {reason}.")


@pytest.mark.parametrize("more", ["", H2C], ids=["alone", "with-an-upgrade"])
@pytest.mark.parametrize(
    "fields",
    ["gzip, chunked", "gzip", "identity, chunked", "gzip\r\nTransfer-Encoding: chunked"],
    ids=["gzip-chunked", "gzip", "identity-chunked", "two-fields"],
)
def test_a_transfer_coding_other_than_chunked_is_refused(served: Served, fields: str, more: str) -> None:
    """RFC 9112, 6.1: the body would be taken for what it is the encoding of."""
    head = f"POST /echo HTTP/1.1\r\nTransfer-Encoding: {fields}\r\n{more}\r\n".encode()
    with served.visit().send(head + b"3\r\nabc\r\n0\r\n\r\n") as visitor:
        status, error = refusal(visitor)

    codings = fields.partition("\r")[0]
    assert (status, error) == (
        501,
        f"The request has Transfer-Encoding: {codings}; send the body as it is, chunked or with a length.",
    )


def test_requests_before_a_body_that_cannot_be_read_are_answered_first(served: Served) -> None:
    served.release.clear()
    unreadable = b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    with served.visit().send(post(path="/held") + post() + unreadable) as visitor:
        served.release_held()
        assert [visitor.echoed() for _ in range(2)] == [posted(path="/held"), posted()]
        assert refusal(visitor)[0] == 400


def test_their_connection_ends_with_its_client(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LINGER", 1000)
    served.release.clear()
    open_before = psutil.Process().num_fds()
    with served.visit().send(post(path="/held") + CHUNKED + b"zz\r\n") as visitor:
        served.release_held()
        visitor.echoed()
        refusal(visitor)

    eventually(lambda: psutil.Process().num_fds() <= open_before, "the server has closed it", within=10)


def test_who_expects_to_be_asked_for_it_is_not_asked_any_more(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    head = CHUNKED.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    with served.visit().send(head + b"zz\r\n") as visitor:
        assert refusal(visitor)[0] == 400

    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_it_is_counted(served: Served) -> None:
    with served.visit().send(b"GARBAGE\r\n\r\n") as visitor:
        refusal(visitor)
    assert 'http_requests_total{method="none",route="none",status="400"}' in served.metrics.exposition().decode()


# --- heads that are too large ------------------------------------------------------------------------

TOO_LARGE = (431, f"The request line and headers are over the limit of {MAX_HEAD} bytes.")


def head_of(size: int) -> bytes:
    """A request whose target and headers, with their separators, have this many bytes."""
    return b"POST /echo HTTP/1.1\r\nContent-Length: 0\r\nX: %b\r\n\r\n" % (
        b"a" * (size - len("/echoContent-Length: 0\r\nX: \r\n"))
    )


@pytest.mark.parametrize("cuts", [(), (100,), (MAX_HEAD - 100,), (20_000, 40_000)], ids=str)
def test_a_head_at_the_limit_is_taken_and_a_larger_one_refused(served: Served, cuts: tuple[int, ...]) -> None:
    for size in (MAX_HEAD, MAX_HEAD + 1):
        head = head_of(size)
        with served.visit() as visitor:
            for start, end in itertools.pairwise((0, *cuts)):
                visitor.send(head[start:end])
                eventually(functools.partial(served.has_read, end), "the server has read this piece")
            visitor.send(head[max((0, *cuts)) :])
            if size == MAX_HEAD:
                assert visitor.echoed() == posted(b"")
            else:
                assert refusal(visitor) == TOO_LARGE


@pytest.mark.parametrize("fields", [MAX_FIELDS, MAX_FIELDS + 2, 20_000])
@pytest.mark.parametrize("end", [b"\r\n", b""], ids=["whole", "unfinished"])
def test_a_head_has_a_bounded_number_of_fields(served: Served, fields: int, end: bytes) -> None:
    head = b"GET /id HTTP/1.1\r\n" + b"X: y\r\n" * fields
    with served.visit().send(head + end) as visitor:
        if fields > MAX_FIELDS:
            assert refusal(visitor) == (431, f"The request has more than {MAX_FIELDS} header fields.")
        else:
            assert visitor.send(b"\r\n" if not end else b"").answer()[0] == 200


def test_no_more_fields_are_read_than_it_may_have(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    on_header = HttpToolsProtocol.on_header

    def counted(self: HttpToolsProtocol, name: bytes, value: bytes) -> None:
        read.append(name)
        on_header(self, name, value)

    monkeypatch.setattr(HttpToolsProtocol, "on_header", counted)
    with served.visit().send(b"GET /id HTTP/1.1\r\n" + b"X: y\r\n" * 7000) as visitor:
        refusal(visitor)

    assert len(read) == MAX_FIELDS


@pytest.mark.parametrize("line", [b"X-%d: ", b"", b"\r\nX-%d: "], ids=["of-headers", "of-one", "of-empty-ones"])
def test_a_head_without_an_end_is_refused_before_it_ends(served: Served, line: bytes) -> None:
    with served.visit().send(b"GET /echo HTTP/1.1\r\nX: ") as visitor:
        for number in range(5):
            visitor.send((line % number if b"%" in line else line) + b"a" * 200_000)
        assert refusal(visitor) == TOO_LARGE


@pytest.mark.parametrize("line", [b"X-%d: ", b"", b"\r\nX-%d: "], ids=["of-headers", "of-one", "of-empty-ones"])
def test_headers_behind_a_body_without_an_end_are_refused(served: Served, line: bytes) -> None:
    with served.visit().send(CHUNKED + CHUNKS.removesuffix(b"\r\n") + b"X: ") as visitor:
        for number in range(5):
            visitor.send((line % number if b"%" in line else line) + b"a" * 200_000)
        assert refusal(visitor) == TOO_LARGE


def test_headers_behind_a_body_are_none_of_the_requests(served: Served) -> None:
    with served.visit().send(CHUNKED + CHUNKS.removesuffix(b"\r\n") + b"X: y\r\n\r\n") as visitor:
        assert visitor.echoed() == [["transfer-encoding", "chunked"]]
        assert visitor.send(post()).echoed() == posted()


def test_heads_and_bodies_together_may_be_larger(served: Served) -> None:
    large = b"a" * 100_000
    half = head_of(MAX_HEAD // 2)
    with served.visit() as visitor:
        for cut in (1, MAX_HEAD // 4, MAX_HEAD // 2):
            visitor.send(post(large) + half[:cut], half[cut:] + post(large))
            assert [visitor.echoed() for _ in range(3)] == [posted(large), posted(b""), posted(large)]
