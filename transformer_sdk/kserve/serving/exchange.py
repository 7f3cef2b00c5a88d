"""One request on its way through the hooks; its body is decoded only if a hook needs the content."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

import orjson

from data_plane.client import forwarding
from data_plane.messages import header
from data_plane.model import Call
from data_plane.off_loop import off_loop
from data_plane.protocol import cloudevents, json_text
from transformer_sdk.kserve.errors import InvalidInput
from transformer_sdk.kserve.model import InferenceVerb
from transformer_sdk.kserve.protocol.infer_type import InferRequest

UNREAD: Any = object()

# Content types that are read as JSON: `curl -T` sends none, `curl -d` that of a form.
_JSON = (b"", b"application/json", b"application/cloudevents+json", b"application/ld+json",
         b"application/octet-stream", b"application/x-www-form-urlencoded")  # fmt: skip
_PROMISES_JSON = re.compile(rb"application/json|.*\+json")


@dataclass(slots=True)
class Exchange:
    """A request and the results of its hooks. `protocol` is v1 or v2; `json_length` is set with binary tensors."""

    model: str
    protocol: str
    call: Call
    body: bytes = b""
    verb: InferenceVerb = InferenceVerb.PREDICT
    json_length: int | None = None
    event: cloudevents.CloudEvent | None = None  # the event that contained the body
    takes_pieces: bool = False  # whether the response may be streamed
    decoded: Any = UNREAD  # the body's content, once it is decoded
    payload: Any = UNREAD  # the input of `predict`, if it is not the original body
    prepared_by: str = ""  # the hook that returned the payload
    response_headers: dict[str, str] = field(default_factory=dict)
    _headers: dict[str, str] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The request's headers, for hooks."""
        if self._headers is None:
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.call.headers}
            self._headers.setdefault("x-request-id", self.call.id)
        return self._headers

    @property
    def content_type(self) -> bytes:
        """The content type of the body, without parameters."""
        event = self.event
        if event and (stated := event.attributes.get("content-type")):  # `ce-content-type`, which KServe reads first
            given = str(stated).encode()
        elif event and event.structured:
            given = str(event.attributes.get("datacontenttype", "")).encode()
        else:
            given = header(self.call.headers, b"content-type") or b""
        return given.partition(b";")[0].strip().lower()

    def forwarded_headers(self) -> list[tuple[str, str]]:
        """Return the headers for the predictor, with changes by hooks; raises ValueError for an invalid header."""
        if self._headers is None:
            return forwarding.forwarded(self.call.headers, self.call.id)
        return list(dict(forwarding.forwarded_of(self._headers)).items())  # a hook may set a name again in another case

    def content(self) -> Any:
        """Return the body for hooks: a JSON document, an InferRequest, or other bytes; raises InvalidInput."""
        if self.decoded is UNREAD:
            self.decoded = self._decode()
        return self.decoded

    async def read(self) -> None:
        """Decode the body, off the event loop if it is large; raises InvalidInput."""
        if self.decoded is UNREAD:
            self.decoded = await off_loop(len(self.body), self._decode)

    def predicted_on(self) -> Any:
        """Return the input of `predict`: the body's content, or the result of a hook; raises InvalidInput."""
        return self.content() if self.payload is UNREAD else self.payload

    def forwarded_type(self) -> bytes:
        """Return the content type for the predictor of a body that is forwarded unchanged and is not JSON."""
        unchanged = self.payload is UNREAD or self.payload is self.decoded
        return self.content_type if unchanged and self.content_type not in _JSON else b""

    def remaining_s(self) -> float:
        return max(self.call.deadline - time.monotonic(), 0.0)

    def _decode(self) -> Any:
        if self.protocol == "v2":
            return InferRequest.from_bytes(self.body, self.json_length, self.model)
        if self.event is None and self.content_type not in _JSON:
            return self.body
        if not self.body and self.event is None:
            raise InvalidInput("The request body is empty; send JSON.")
        try:
            document = json_text.loads(self.body)
        except orjson.JSONDecodeError as error:
            if self.event is not None and not _PROMISES_JSON.fullmatch(self.content_type):
                return self.body  # the data of an event may have any type
            raise InvalidInput(f"The request body is {json_text.fault(self.body, error)}.") from error
        # KServe treats a document with an event's attributes as an event, whatever its content type.
        return document["data"] if self.event is None and cloudevents.is_structured(document) else document
