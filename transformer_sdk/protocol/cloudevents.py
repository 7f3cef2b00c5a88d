"""CloudEvents 1.0 over HTTP: the payload out of a request's event, and the answer into an event. Pure.

An event is binary (attributes in `ce-` headers, the body is the payload) or structured (one JSON document). The answer
to an event is one, in the same mode, with the type and source that KServe gives it.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from urllib.parse import quote, unquote

import msgspec
import orjson

from transformer_sdk.errors import InvalidInput
from transformer_sdk.messages import Headers, Response, header

RESPONSE_TYPE = "io.kserve.inference.response"
RESPONSE_SOURCE = "io.kserve.inference"

_STRUCTURED = b"application/cloudevents+json"
_BATCH = b"application/cloudevents-batch"
_JSON = b"application/json"
_REQUIRED = ("specversion", "id", "source", "type")
_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """An event that came as a request."""

    id: str
    payload: bytes
    structured: bool


class _Document(msgspec.Struct):
    specversion: str = ""
    id: str = ""
    source: str = ""
    type: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")  # JSON stays as it was written
    data_base64: bytes | None = None


_document = msgspec.json.Decoder(_Document)


def unwrap(headers: Headers, body: bytes) -> CloudEvent | None:
    """The event in a request, None if it is none; raises InvalidInput for one that is not whole."""
    content_type = (header(headers, b"content-type") or b"").lower()
    if content_type.startswith(_STRUCTURED):
        return _structured(body)
    if content_type.startswith(_BATCH):
        raise InvalidInput("Batches of CloudEvents are not served; send each event as a request of its own.")
    # Only this header makes an event: the others are also set by gateways and for logs.
    if header(headers, b"ce-specversion") is None:
        return None
    attributes = {
        name[3:].decode("latin-1"): unquote(value.decode("latin-1"))
        for name, value in headers
        if name.startswith(b"ce-")
    }
    _check(attributes, "header ce-")
    return CloudEvent(attributes["id"], body, structured=False)


def wrap(
    event: CloudEvent,
    response: Response,
    model: str | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
) -> Response:
    """The answer to `event` as an event. It has the request's id: with its own source that is unique."""
    attributes = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"{RESPONSE_SOURCE}.{model}" if model else RESPONSE_SOURCE,
        "type": RESPONSE_TYPE,
        "time": now().isoformat(),
    }
    if event.structured:
        return dataclasses.replace(response, body=_encode(attributes, response), content_type=_STRUCTURED)
    ce_headers = tuple(
        (f"ce-{name}".encode(), quote(value, safe=_PRINTABLE).encode()) for name, value in attributes.items()
    )
    return dataclasses.replace(response, headers=(*response.headers, *ce_headers))


def _structured(body: bytes) -> CloudEvent:
    try:
        document = _document.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"The structured CloudEvent cannot be read: {error}.") from error
    _check({name: getattr(document, name) for name in _REQUIRED}, "attribute ")
    if bool(document.data) == (document.data_base64 is not None):
        raise InvalidInput('The structured CloudEvent needs "data" or "data_base64", and not both.')
    payload = bytes(document.data) if document.data_base64 is None else document.data_base64
    return CloudEvent(document.id, payload, structured=True)


def _check(attributes: Mapping[str, str], kind: str) -> None:
    for name in _REQUIRED:
        if not attributes.get(name):
            raise InvalidInput(f"The CloudEvent has no {kind}{name}; the required ones are {', '.join(_REQUIRED)}.")
    if attributes["specversion"] != "1.0":
        raise InvalidInput(f"The CloudEvent's specversion is {attributes['specversion']!r}; send 1.0.")


def _encode(attributes: Mapping[str, str], response: Response) -> bytes:
    if response.content_type.startswith(_JSON):
        return orjson.dumps(
            {**attributes, "datacontenttype": "application/json", "data": orjson.Fragment(response.body)}
        )
    data = {"datacontenttype": response.content_type.decode(), "data_base64": base64.b64encode(response.body).decode()}
    return orjson.dumps({**attributes, **data})
