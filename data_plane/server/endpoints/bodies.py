"""From a request's body to what its protocol asks, by way of a CloudEvent where it came in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from data_plane.errors import EncodedBody, InvalidRequest
from data_plane.messages import Request
from data_plane.protocol import cloudevents
from data_plane.protocol.cloudevents import CloudEvent

_Asked = TypeVar("_Asked")


def read(request: Request, decode: Callable[[bytes], _Asked]) -> tuple[_Asked, CloudEvent | None]:
    """What is asked, and the event to answer with one; raises InvalidRequest and EncodedBody."""
    event = None
    try:
        event = cloudevents.unwrap(request.headers, request.body)
        return decode(event.payload if event else request.body), event
    except InvalidRequest:
        # Looked for only now: nearly every request is plain, and pays for neither.
        refuse_encoded(request)
        data = None if event else cloudevents.data_in(request.body)
        if data is None:
            raise
    return decode(data), None


def refuse_encoded(request: Request) -> None:
    """Why a body cannot be read, where it is compressed; raises EncodedBody."""
    encoding = (request.header(b"content-encoding") or b"identity").decode("latin-1")
    if encoding.lower() != "identity":
        raise EncodedBody(encoding)
