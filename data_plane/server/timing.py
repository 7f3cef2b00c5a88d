"""The header `Server-Timing`: how long the stages of a request took, for clients that ask."""

from __future__ import annotations

from collections.abc import Mapping

from data_plane.messages import Headers, header

SERVER_TIMING = "server-timing"
# A client that sends this header gets the other back.
_ASK = b"x-server-timing"


def server_timing(headers: Headers, timings: Mapping[str, float]) -> str:
    """The stages, which are in seconds, in milliseconds; "" where no header asks for them or none is known."""
    if not timings or header(headers, _ASK) is None:
        return ""
    return ", ".join(f"{stage};dur={seconds * 1000:.3f}" for stage, seconds in timings.items())
