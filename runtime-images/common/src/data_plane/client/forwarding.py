"""Headers that are forwarded to the predictor: authorization, request id, trace and sequence. Pure."""

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
# Set by the connection itself: a second length would allow request smuggling, and it cannot decompress a response.
_NOT_SENT = frozenset({"content-length", "transfer-encoding", "connection", "accept-encoding"})
_FORWARDED = frozenset(name.encode() for name in FORWARDED)


def forwarded(headers: Headers, request_id: str) -> list[tuple[bytes, bytes]]:
    """Return the forwarded headers of an incoming request; without an id of its own it gets the one in the logs."""
    kept = [pair for pair in headers if pair[0] in _FORWARDED]
    if all(name != b"x-request-id" for name, _ in kept):
        kept.append((b"x-request-id", request_id.encode("latin-1")))
    return kept


def forwarded_of(headers: Mapping[str, str] | None) -> list[tuple[bytes, bytes]]:
    """Return the forwarded headers among those of user code."""
    return encode((name, value) for name, value in (headers or {}).items() if name.lower() in FORWARDED)


def encode(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Encode headers for the wire; raises ValueError for a header with a line break.

    Drops the headers that the connection sets itself, and puts `host` first.
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
