"""Decode a request's body, which may be wrapped in a CloudEvent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from data_plane.errors import EncodedBody, InvalidRequest
from data_plane.messages import Request
from data_plane.protocol import cloudevents
from data_plane.protocol.cloudevents import CloudEvent

_Decoded = TypeVar("_Decoded")


def read(request: Request, decode: Callable[[bytes], _Decoded]) -> tuple[_Decoded, CloudEvent | None]:
    """Return the decoded body, and the CloudEvent around it, if any; raises InvalidRequest and EncodedBody."""
    event = None
    try:
        event = cloudevents.unwrap(request.headers, request.body)
        return decode(event.payload if event else request.body), event
    except InvalidRequest:
        # Both are checked only now: nearly every request is plain JSON.
        refuse_encoded(request)
        data = None if event else cloudevents.data_in(request.body)
        if data is None:
            raise
    return decode(data), None


def refuse_encoded(request: Request) -> None:
    encoding = (request.header(b"content-encoding") or b"identity").decode("latin-1")
    if encoding.lower() != "identity":
        raise EncodedBody(encoding)
