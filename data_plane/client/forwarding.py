"""Which headers of a request go on to the predictor: who asks, and which trace and sequence it belongs to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from data_plane.messages import Headers

FORWARDED = frozenset({
    "authorization",
    "x-request-id",
    "traceparent", "tracestate", "baggage",  # W3C
    "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags",  # Zipkin
    "ts_request_sequence_id", "ts_request_sequence_start", "ts_request_sequence_end",  # TorchServe
})  # fmt: skip
# The connection's own: two lengths are two requests, and it cannot unpack a response.
_NOT_SENT = frozenset({"content-length", "transfer-encoding", "connection", "accept-encoding"})
_FORWARDED = frozenset(name.encode() for name in FORWARDED)


def forwarded(headers: Headers, request_id: str) -> list[tuple[bytes, bytes]]:
    """Those of a request as it came in; one without an id gets the one that its logs have."""
    kept = [pair for pair in headers if pair[0] in _FORWARDED]
    if all(name != b"x-request-id" for name, _ in kept):
        kept.append((b"x-request-id", request_id.encode("latin-1")))
    return kept


def forwarded_of(headers: Mapping[str, str] | None) -> list[tuple[bytes, bytes]]:
    """Those among headers that user code holds."""
    return encode((name, value) for name, value in (headers or {}).items() if name.lower() in FORWARDED)


def encode(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """As they go over the wire; raises ValueError for one that would end its line.

    Without those that the connection has to say. A `host` comes first.
    """
    encoded: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name.lower() in _NOT_SENT:
            continue
        if any(char in "\r\n\0" for char in f"{name}{value}"):
            raise ValueError(f"The header {name!r} holds a line break.")
        pair = (name.lower().encode("latin-1"), str(value).encode("latin-1", "replace"))
        encoded.insert(0 if pair[0] == b"host" else len(encoded), pair)
    return encoded
