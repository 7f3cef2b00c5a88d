"""Responses of predictors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from data_plane.client.address import Address
from data_plane.client.errors import PredictorBroken, PredictorError
from data_plane.messages import Headers, header

if TYPE_CHECKING:
    from data_plane.client.pieces import Pieces  # aiohttp takes a while to import


@dataclass(frozen=True, slots=True)
class UpstreamResponse:
    """A response of any status. A streamed response has `pieces` and an empty body."""

    status: int
    headers: Headers  # names in lower case
    body: bytes
    pieces: Pieces | None = None

    def header(self, name: bytes) -> bytes | None:
        return header(self.headers, name)


def successful(response: UpstreamResponse, base_url: str) -> UpstreamResponse:
    """Return a response of status 2xx; raises PredictorError, and PredictorBroken for a redirect."""
    if 200 <= response.status < 300:
        return response
    if response.status >= 400:
        raise PredictorError(response.status, response.body, response.header(b"retry-after"))
    where = (response.header(b"location") or b"nowhere").decode("latin-1")
    raise PredictorBroken(
        f"The predictor at {Address.parse(base_url)} answered {response.status} and sends on to {where}, which is not "
        "followed; give that address as --predictor_host."
    )
