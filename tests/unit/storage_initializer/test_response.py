"""Answers of HTTP servers, as bytes on a socket."""

from __future__ import annotations

from http.client import HTTPException, RemoteDisconnected
from io import BufferedReader, BytesIO, RawIOBase
from socket import socket
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest

from storage_initializer.backends.response import Headers, Paced, StoreResponse
from storage_initializer.limits import MAX_HEADERS, MAX_INTERIM_ANSWERS, MIN_RATE

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class _Socket:
    """What an answer needs of one."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def gettimeout(self) -> float:
        return 30.0

    def makefile(self, mode: str) -> BinaryIO:
        assert mode == "rb"
        return cast(BinaryIO, BufferedReader(cast(RawIOBase, BytesIO(self._content))))


def _response(content: bytes, method: str = "GET") -> StoreResponse:
    response = StoreResponse(cast(socket, _Socket(content)), method=method)
    response.begin()
    return response


def test_an_answer_of_a_known_length() -> None:
    response = _response(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag:  "one" \r\n\r\nhellomore')

    assert (response.status, response.reason, response.will_close) == (200, "OK", False)
    assert dict(response.headers) == {"content-length": "5", "etag": '"one"'}
    assert response.read() == b"hello"


def test_headers_are_found_in_any_case() -> None:
    headers = Headers(iter([b"X-Amz-Checksum-CRC32: AAAAAA==\r\n"]))

    assert headers["x-amz-checksum-crc32"] == headers.get("X-AMZ-CHECKSUM-CRC32") == "AAAAAA=="
    assert "etag" not in headers


def test_a_header_that_comes_twice_has_both_values() -> None:
    assert dict(Headers(iter([b"Via: a\r\n", b"via: b\r\n"]))) == {"via": "a, b"}


def test_chunks() -> None:
    response = _response(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n")

    assert (response.chunked, response.will_close) == (True, False)
    assert response.read() == b"hello"


def test_interim_answers_are_passed_over() -> None:
    response = _response(b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n")

    assert (response.status, response.length) == (204, 0)


def test_an_answer_to_head_has_no_body() -> None:
    response = _response(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", method="HEAD")

    assert (response.length, response.headers["content-length"]) == (0, "5")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nhello", id="no length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nhello", id="no number"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello", id="negative"),
        pytest.param(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", id="told"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", id="old protocol"),
    ],
)
def test_what_ends_with_the_connection(content: bytes) -> None:
    response = _response(content)

    assert response.will_close
    assert response.read() == b"hello"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="broken off in a header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nETag: one\r\n", id="broken off between headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", id="no colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", id="folded"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", id="blank before the colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: " + 70_000 * b"b" + b"\r\n\r\n", id="too long"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + 101 * b"A: b\r\n" + b"\r\n", id="too many"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="not HTTP"),
    ],
)
def test_what_is_no_answer(content: bytes) -> None:
    with pytest.raises(HTTPException):
        _response(content)


def test_a_connection_that_was_closed_before_an_answer() -> None:
    with pytest.raises(RemoteDisconnected):
        _response(b"")


def test_interim_answers_without_an_end_are_none() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"

    assert _response(interim * MAX_INTERIM_ANSWERS + b"HTTP/1.1 204 No Content\r\n\r\n").status == 204
    assert _response(interim * (MAX_INTERIM_ANSWERS + 1) + b"HTTP/1.1 204 No Content\r\n\r\n").status == 100


def test_trailers_without_an_end_are_refused() -> None:
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"

    assert _response(chunks + b"X: y\r\n" * (MAX_HEADERS - 1) + b"\r\n").read() == b"x"
    with pytest.raises(HTTPException, match="there are more than 100 headers"):
        _response(chunks + b"X: y\r\n" * MAX_HEADERS + b"\r\n").read()


class _Trickle(RawIOBase):
    """A byte at each read, after a wait of ``wait_s`` by the clock ``now``."""

    def __init__(self, wait_s: float) -> None:
        self.now = 0.0
        self._wait_s = wait_s

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self.now += self._wait_s
        return 1


def test_a_server_that_sends_a_byte_now_and_then_gives_no_answer() -> None:
    trickle = _Trickle(29.0)
    paced = BufferedReader(Paced(trickle, 60.0, lambda: trickle.now))

    with pytest.raises(TimeoutError):
        paced.read(10)
    assert trickle.now == 87.0


def test_a_server_that_thinks_for_long_once_is_waited_for() -> None:
    trickle = _Trickle(29.0)
    paced = BufferedReader(Paced(trickle, 60.0, lambda: trickle.now))

    assert len(paced.read(2)) == 2


def test_a_slow_line_is_read_to_its_end() -> None:
    trickle = _Trickle(0.9 / MIN_RATE)
    paced = BufferedReader(Paced(trickle, 1.0, lambda: trickle.now))

    assert len(paced.read(10 * MIN_RATE)) == 10 * MIN_RATE
