"""The body of a streamed response, passed on while it arrives."""

from __future__ import annotations

import asyncio

import aiohttp

from data_plane.client.address import Address
from data_plane.client.errors import PredictorTimeout
from data_plane.client.failures import broken
from data_plane.client.time_limit import time_limit


class Pieces:
    """An async iterator over a response body while it arrives. A reader that stops early calls `aclose`.

    Raises PredictorBroken, and PredictorTimeout when no data has come for `silence_s`. No generator: closing one that
    never began would not close the connection.
    """

    def __init__(self, response: aiohttp.ClientResponse, address: Address, silence_s: float | None) -> None:
        self._response = response
        self._address = address
        self._silence_s = silence_s

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with time_limit(self._silence_s):
                piece = await self._response.content.readany()
        except asyncio.TimeoutError as error:
            self._response.close()
            silence = f"sent nothing for {self._silence_s:g} s in the middle of its response"
            raise PredictorTimeout(f"The predictor at {self._address} {silence}.") from error
        except aiohttp.ClientError as error:
            self._response.close()
            raise broken(self._address, error) from error
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Stop reading, and close the connection if the body is incomplete."""
        self._response.close()
