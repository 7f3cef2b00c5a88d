"""One request on its way through the hooks, read only as far as somebody looks."""

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

# What a body can be said to be and still is JSON: `curl -T` says nothing, `curl -d` that it is a form.
_JSON = (b"", b"application/json", b"application/cloudevents+json", b"application/ld+json",
         b"application/octet-stream", b"application/x-www-form-urlencoded")  # fmt: skip
_PROMISES_JSON = re.compile(rb"application/json|.*\+json")


@dataclass(slots=True)
class Exchange:
    """`protocol` is the client's: v1 or v2. `json_length` is that of a v2 body with raw tensors."""

    model: str
    protocol: str
    call: Call
    body: bytes = b""
    verb: InferenceVerb = InferenceVerb.PREDICT
    json_length: int | None = None
    event: cloudevents.CloudEvent | None = None  # the one that the body came in
    takes_pieces: bool = False  # its client may be answered piece by piece
    decoded: Any = UNREAD  # the body's content, once somebody has looked
    payload: Any = UNREAD  # what is predicted on, if it is not the body as it came
    prepared_by: str = ""  # the hook that made the payload
    response_headers: dict[str, str] = field(default_factory=dict)
    _headers: dict[str, str] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The request's, for hooks."""
        if self._headers is None:
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.call.headers}
            self._headers.setdefault("x-request-id", self.call.id)
        return self._headers

    @property
    def content_type(self) -> bytes:
        """Of the body, without its parameters."""
        event = self.event
        if event and (said := event.attributes.get("content-type")):  # `ce-content-type`, which KServe reads first
            given = str(said).encode()
        elif event and event.structured:
            given = str(event.attributes.get("datacontenttype", "")).encode()
        else:
            given = header(self.call.headers, b"content-type") or b""
        return given.partition(b";")[0].strip().lower()

    def forwarded_headers(self) -> list[tuple[bytes, bytes]]:
        """Those that go on to the predictor, as hooks have left them; raises ValueError for what no header can be."""
        if self._headers is None:
            return forwarding.forwarded(self.call.headers, self.call.id)
        return list(dict(forwarding.forwarded_of(self._headers)).items())  # a hook may write a name in another case

    def content(self) -> Any:
        """The body as hooks see it: a JSON document, an InferRequest, or bytes of another type; raises InvalidInput."""
        if self.decoded is UNREAD:
            self.decoded = self._decode()
        return self.decoded

    async def read(self) -> None:
        """Have a large body decoded off the loop, for those who look at its content; raises InvalidInput."""
        if self.decoded is UNREAD:
            self.decoded = await off_loop(json_text.weight(self.body), self._decode)

    def predicted_on(self) -> Any:
        """The body's content, or what hooks have put in its place; raises InvalidInput."""
        return self.content() if self.payload is UNREAD else self.payload

    def forwarded_type(self) -> bytes:
        """The content type that the predictor is told, of a body that goes on as it came and is no JSON."""
        as_it_came = self.payload is UNREAD or self.payload is self.decoded
        return self.content_type if as_it_came and self.content_type not in _JSON else b""

    def remaining_s(self) -> float:
        """Until the client's time is over."""
        return max(self.call.deadline - time.monotonic(), 0.0)

    def _decode(self) -> Any:
        if self.protocol == "v2":
            return InferRequest.from_bytes(self.body, self.json_length, self.model)
        if self.event is None and self.content_type not in _JSON:
            return self.body
        try:
            document = json_text.loads(self.body)
        except orjson.JSONDecodeError as error:
            if self.event is not None and not _PROMISES_JSON.fullmatch(self.content_type):
                return self.body  # an event's data may be anything
            raise InvalidInput(
                f"The request body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
            ) from error
        # KServe takes what has an event's attributes for one, whatever it was called.
        return document["data"] if self.event is None and cloudevents.is_structured(document) else document
