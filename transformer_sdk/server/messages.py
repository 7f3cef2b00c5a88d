"""What an endpoint gets and gives: whole requests and whole responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import orjson

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body read to the end."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Headers  # names in lower case, as ASGI gives them
    body: bytes
    id: str


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; its length and request id are added when it is sent."""

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: Headers = ()


Endpoint = Callable[[Request], Awaitable[Response]]


def json_response(document: object, status: int = 200, headers: Headers = ()) -> Response:
    """An answer with `document` as its JSON; raises TypeError for what JSON cannot hold."""
    return Response(orjson.dumps(document), status, headers=headers)
