"""Requests and responses of endpoints.

They are structs because creating a frozen dataclass takes microseconds, and each request creates several.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec
import orjson

Headers = tuple[tuple[bytes, bytes], ...]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>)")  # of an object in this process, as Python writes it
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def never() -> bool:
    """Return False: nobody disconnects where there is no connection."""
    return False


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    params: Mapping[str, str]
    headers: Headers  # names in lower case, as ASGI gives them
    body: bytes
    id: str
    query: bytes = b""
    is_gone: Callable[[], bool] = never  # whether the client has disconnected
    timings: dict[str, float] = msgspec.field(default_factory=dict)  # seconds by stage, set by the model
    client: tuple[str, int] | None = None  # its IP address and port

    def header(self, name: bytes) -> bytes | None:
        """Return the value of a header; `name` is in lower case."""
        return header(self.headers, name)


class Response(msgspec.Struct, frozen=True):
    """A response; the server adds its length and request id."""

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: Headers = ()


class StreamingResponse(msgspec.Struct, frozen=True):
    """A response that is sent in pieces as they are produced; its length is unknown."""

    chunks: AsyncIterator[bytes]
    status: int = 200
    content_type: bytes = b"application/octet-stream"
    headers: Headers = ()


async def close_chunks(response: StreamingResponse) -> None:
    """Close the iterator of the chunks, so that the model stops sending them."""
    if aclose := getattr(response.chunks, "aclose", None):
        await aclose()


async def gathered(response: StreamingResponse) -> Response:
    """Return the response with all its chunks as one body."""
    try:
        body = b"".join([chunk async for chunk in response.chunks])
    finally:
        await close_chunks(response)
    return Response(body, response.status, response.content_type, response.headers)


Endpoint = Callable[[Request], Awaitable[Response | StreamingResponse]]


def encodable(text: str) -> str:
    """Return `text` as UTF-8 can carry it; a lone surrogate, which JSON may contain, becomes `\\ud800`."""
    return text.encode("utf-8", "backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """Return the message of an exception for clients: encodable as UTF-8, and without addresses in memory.

    Formatting a user's exception may itself fail.
    """
    try:
        return _ADDRESS.sub("", encodable(str(error)))
    except Exception as failure:  # noqa: BLE001 - it runs the user's code
        return f"(it cannot be written: its text raises {type(failure).__name__})"


def header(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of a header; `name` is in lower case."""
    for key, value in headers:
        if key == name:
            return value
    return None


def is_header(name: str, value: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not _CONTROLS.search(value)


def json_response(document: object, status: int = 200, headers: Headers = ()) -> Response:
    """Return a response with `document` as JSON; raises TypeError for values that JSON cannot hold."""
    return Response(orjson.dumps(document), status, headers=headers)
