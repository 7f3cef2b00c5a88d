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


def forwarded(headers: Headers, request_id: str) -> list[tuple[str, str]]:
    """Return the forwarded headers of an incoming request; without an id of its own it gets the one in the logs."""
    kept = [(name.decode(), value.decode("latin-1")) for name, value in headers if name in _FORWARDED]
    if all(name != "x-request-id" for name, _ in kept):
        kept.append(("x-request-id", request_id))
    return kept


def forwarded_of(headers: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Return the forwarded headers among those of user code."""
    return sent((name, value) for name, value in (headers or {}).items() if name.lower() in FORWARDED)


def sent(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers without those that the connection sets itself; raises ValueError for one with a line break."""
    kept = [(name.lower(), str(value)) for name, value in headers if name.lower() not in _NOT_SENT]
    for name, value in kept:
        if any(char in "\r\n\0" for char in f"{name}{value}"):
            raise ValueError(f"The header {name!r} holds a line break.")
    return kept
