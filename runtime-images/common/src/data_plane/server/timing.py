"""The header `Server-Timing`: the durations of a request's stages, for clients that send `X-Server-Timing`."""

from __future__ import annotations

from collections.abc import Mapping

from data_plane.messages import Headers, header

SERVER_TIMING = "server-timing"
_REQUESTED = b"x-server-timing"


def server_timing(headers: Headers, timings: Mapping[str, float]) -> str:
    """Return the header's value, in milliseconds; empty if the client did not request it. `timings` are seconds."""
    if not timings or header(headers, _REQUESTED) is None:
        return ""
    return ", ".join(f"{stage};dur={seconds * 1000:.3f}" for stage, seconds in timings.items())
