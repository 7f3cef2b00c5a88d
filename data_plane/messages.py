"""What an endpoint gets and gives: whole requests and whole responses.

Structs, not dataclasses: a frozen dataclass takes microseconds to make, and each request makes several.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec
import orjson

Headers = tuple[tuple[bytes, bytes], ...]


def _stays() -> bool:
    return False


class Request(msgspec.Struct, frozen=True):
    """One request, its body read to the end."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Headers  # names in lower case, as ASGI gives them
    body: bytes
    id: str
    query: bytes = b""
    is_gone: Callable[[], bool] = _stays  # the client disconnected
    timings: dict[str, float] = msgspec.field(default_factory=dict)  # seconds by stage, set by the model

    def header(self, name: bytes) -> bytes | None:
        """The value of a header, its name given in lower case."""
        return header(self.headers, name)


class Response(msgspec.Struct, frozen=True):
    """One response; its length and request id are added when it is sent."""

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: Headers = ()


class StreamingResponse(msgspec.Struct, frozen=True):
    """A response that is sent piece by piece as it is made; its length is not known."""

    chunks: AsyncIterator[bytes]
    status: int = 200
    content_type: bytes = b"application/octet-stream"
    headers: Headers = ()


Endpoint = Callable[[Request], Awaitable[Response | StreamingResponse]]


def encodable(text: str) -> str:
    """`text` as UTF-8 can carry it: half of a surrogate pair, which some read out of JSON, is written as `\\ud800`."""
    return text.encode("utf-8", "backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """What an exception says of itself, encodable. One of a user's own may fail even at that."""
    try:
        return encodable(str(error))
    except Exception as failure:  # noqa: BLE001 - it runs the user's code
        return f"(it cannot be written: its text raises {type(failure).__name__})"


def header(headers: Headers, name: bytes) -> bytes | None:
    """The first value of the header `name`, which is in lower case."""
    for key, value in headers:
        if key == name:
            return value
    return None


def json_response(document: object, status: int = 200, headers: Headers = ()) -> Response:
    """A response with `document` as its JSON; raises TypeError for what JSON cannot hold."""
    return Response(orjson.dumps(document), status, headers=headers)
