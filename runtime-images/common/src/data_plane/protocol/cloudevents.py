"""CloudEvents 1.0 over HTTP: read the payload of a request's event, and write the response as an event. Pure.

An event is binary (attributes in `ce-` headers, the body is the payload) or structured (one JSON document). The
response to an event is an event of the same mode, with KServe's type and source. The response to a structured event
that is sent as plain JSON is plain JSON.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from urllib.parse import quote, unquote

import msgspec
import orjson
from msgspec import structs

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_EVENT_ATTRIBUTES
from data_plane.messages import Headers, Response, header

RESPONSE_TYPE = "io.kserve.inference.response"
RESPONSE_SOURCE = "io.kserve.inference"

_EVENTS = b"application/cloudevents"
_STRUCTURED = b"application/cloudevents+json"
_BATCH = b"application/cloudevents-batch"
_JSON = b"application/json"
_REQUIRED = ("specversion", "id", "source", "type")
_DATA = ("data", "data_base64")
_MAX_INTEGER = 2**31
_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')

Attribute = str | int  # or bool, a subclass of int


@dataclass(frozen=True, slots=True)
class CloudEvent:
    attributes: Mapping[str, Attribute]  # including extensions
    payload: bytes
    structured: bool


@dataclass(frozen=True, slots=True)
class EventStyle:
    """The attributes of events in responses."""

    merges: bool = False  # add the attributes of the request's event that the response does not set
    type: str = RESPONSE_TYPE
    source: str | None = None  # replaces the default, which names the model

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> EventStyle:
        """Read KServe's environment variables."""
        return cls(
            environment.get("CE_MERGE", "").lower() == "true",
            environment.get("CE_TYPE") or RESPONSE_TYPE,
            environment.get("CE_SOURCE") or None,
        )


DEFAULT_STYLE = EventStyle()


class _EventDocument(msgspec.Struct):
    specversion: str = ""
    id: str = ""
    source: str = ""
    type: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")  # kept as it was written
    data_base64: bytes | None = None


_document = msgspec.json.Decoder(_EventDocument)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def weight(headers: Headers, body: bytes) -> int:
    """Return the bytes that `unwrap` looks at."""
    return len(body) if _content_type(headers).startswith(_EVENTS) else 0


def _content_type(headers: Headers) -> bytes:
    return (header(headers, b"content-type") or b"").lower()


def unwrap(headers: Headers, body: bytes) -> CloudEvent | None:
    """Return the event of a request, or None; raises InvalidRequest for an incomplete event."""
    content_type = _content_type(headers)
    # Some clients send binary events with the content type of structured ones, which is then the payload's.
    if content_type.startswith(_EVENTS) and any(header(headers, f"ce-{name}".encode()) is None for name in _REQUIRED):
        if content_type.startswith(_BATCH):
            raise InvalidRequest("Batches of CloudEvents are not served; send each event as a request of its own.")
        return _structured(body)
    # Only this header identifies an event: gateways and log agents set the others, too.
    if header(headers, b"ce-specversion") is None:
        return None
    attributes = {
        name[3:].decode("latin-1"): unquote(value.decode("latin-1"))
        for name, value in headers
        if name.startswith(b"ce-")
    }
    _check(attributes, "header ce-")
    return CloudEvent(attributes, body, structured=False)


def data_in(body: bytes) -> bytes | None:
    """Return the payload of a structured event that is sent as plain JSON; None if the body is not an event."""
    try:
        return _structured(body).payload
    except InvalidRequest:
        return None


def is_structured(document: object) -> bool:
    """Whether a JSON document is a structured event with JSON data."""
    return isinstance(document, dict) and all(name in document for name in (*_REQUIRED, "data"))


def wrap(
    event: CloudEvent,
    response: Response,
    model: str,
    *,
    style: EventStyle = DEFAULT_STYLE,
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
) -> Response:
    """Return the response to `event` as an event with a new id."""
    own = {
        "specversion": "1.0",
        "id": new_id(),
        "source": style.source or f"{RESPONSE_SOURCE}.{model}",
        "type": style.type,
        "time": now().isoformat(),
    }
    attributes = {**event.attributes, **own} if style.merges else own
    attributes.pop("datacontenttype", None)  # describes the request's data
    if event.structured:
        return structs.replace(response, body=_encode(attributes, response), content_type=_STRUCTURED)
    return structs.replace(response, headers=(*response.headers, *attribute_headers(attributes)))


def attribute_headers(attributes: Mapping[str, Attribute]) -> Headers:
    return tuple((f"ce-{name}".encode(), encoded(value).encode()) for name, value in attributes.items())


def encoded(value: Attribute) -> str:
    return quote(str(value), safe=_PRINTABLE)


def _structured(body: bytes) -> CloudEvent:
    try:
        document = _document.decode(body)
        _check({name: getattr(document, name) for name in _REQUIRED}, "attribute ")
        data, size = _data_of(document)
        if len(body) - size > MAX_EVENT_ATTRIBUTES:
            raise InvalidRequest(
                f"The CloudEvent's attributes have {len(body) - size} bytes; {MAX_EVENT_ATTRIBUTES} are served."
            )
        members = {name: msgspec.json.decode(raw) for name, raw in _members.decode(body).items() if name not in _DATA}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The structured CloudEvent cannot be read: {error}.") from error
    attributes = {name: value for name, value in members.items() if _is_attribute(value)}
    return CloudEvent(attributes, data, structured=True)


def _data_of(document: _EventDocument) -> tuple[bytes, int]:
    """Return the data of an event, and its bytes in the document."""
    data, decoded = bytes(document.data), document.data_base64
    if bool(data) == (decoded is not None):
        raise InvalidRequest('The structured CloudEvent needs "data" or "data_base64", and not both.')
    return (data, len(data)) if decoded is None else (decoded, (len(decoded) + 2) // 3 * 4)


def _is_attribute(value: object) -> bool:
    """Whether a JSON value may be an attribute."""
    return isinstance(value, str) or (isinstance(value, int) and -_MAX_INTEGER <= value < _MAX_INTEGER)


def _check(attributes: Mapping[str, str], kind: str) -> None:
    for name in _REQUIRED:
        if not attributes.get(name):
            raise InvalidRequest(f"The CloudEvent has no {kind}{name}; the required ones are {', '.join(_REQUIRED)}.")
    if attributes["specversion"] != "1.0":
        raise InvalidRequest(f"The CloudEvent's specversion is {attributes['specversion']!r}; send 1.0.")


def _encode(attributes: Mapping[str, Attribute], response: Response) -> bytes:
    if response.content_type.startswith(_JSON):
        return orjson.dumps(
            {**attributes, "datacontenttype": "application/json", "data": orjson.Fragment(response.body)}
        )
    data = {"datacontenttype": response.content_type.decode(), "data_base64": base64.b64encode(response.body).decode()}
    return orjson.dumps({**attributes, **data})
