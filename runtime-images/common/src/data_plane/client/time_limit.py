"""A limit for the time of a block, which raises asyncio.TimeoutError: asyncio's, which Python 3.10 lacks."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from async_timeout import timeout as time_limit  # aiohttp needs it, too

__all__ = ["time_limit"]
