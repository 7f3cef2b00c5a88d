"""The body of an HTTP response: it comes from outside, so it is read up to a limit."""

from __future__ import annotations

import aiohttp


async def read_up_to(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the body; of one that has more than ``limit`` bytes, the first ``limit + 1``, by which that is known."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > limit:
            break
    return b"".join(parts)[: limit + 1]
