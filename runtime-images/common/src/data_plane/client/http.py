"""An HTTP client with a connection pool for each server; returns successful responses and raises for all others."""

from __future__ import annotations

import asyncio
import functools
import ssl
import weakref
from collections.abc import Iterable

from data_plane.client.address import Address
from data_plane.client.connection import UpstreamResponse
from data_plane.client.errors import PredictorBroken, PredictorError
from data_plane.client.pool import Limits, Pool, TlsOf
from data_plane.tls import trusting

_NO_LIMIT_S = 365 * 86400.0
_OK, _REDIRECT, _ERROR = 200, 300, 400


@functools.cache
def of_the_system() -> ssl.SSLContext:
    """Return settings that trust what the system trusts; its certificates take a while to read."""
    return trusting()


class HttpClient:
    """A client for any event loop; connections belong to the loop that opened them."""

    def __init__(
        self,
        *,
        retries: int = 0,
        tls: TlsOf = of_the_system,
        limits: Limits | None = None,
    ) -> None:
        self._retries = retries
        self._tls = tls
        self._limits = limits
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Pool]] = weakref.WeakKeyDictionary()

    async def request(
        self,
        method: str,
        base_url: str,
        path: str,
        headers: Iterable[tuple[bytes, bytes]] = (),
        body: bytes = b"",
        timeout_s: float | None = None,
        *,
        stream: bool = False,
    ) -> UpstreamResponse:
        """Return a response of status 2xx; raises the errors of `client.errors`, and BadAddress.

        Without `timeout_s` there is no limit. With `stream` the response may be streamed.
        """
        pool = self.pool(base_url)
        limit = _NO_LIMIT_S if timeout_s is None else timeout_s
        response = await pool.request(method, path, headers, body, limit, stream=stream)
        if not _OK <= response.status < _REDIRECT:
            raise _error_of(response, pool.address)
        return response

    def pool(self, base_url: str) -> Pool:
        """Return the connection pool of the running loop for this server."""
        pools = self._pools.setdefault(asyncio.get_running_loop(), {})
        if base_url not in pools:
            address = Address.parse(base_url)
            tls = self._tls if address.scheme == "https" else None
            pools[base_url] = Pool(address, retries=self._retries, tls=tls, limits=self._limits)
        return pools[base_url]

    def close(self) -> None:
        """Close idle connections; one in use closes with its request."""
        for pool in self._pools.get(asyncio.get_running_loop(), {}).values():
            pool.close()


def _error_of(response: UpstreamResponse, address: Address) -> Exception:
    if response.status >= _ERROR:
        return PredictorError(response.status, response.body, response.header(b"retry-after"))
    where = (response.header(b"location") or b"nowhere").decode("latin-1")
    return PredictorBroken(
        f"The predictor at {address} answered {response.status} and sends on to {where}, which is not followed; "
        "give that address as --predictor_host."
    )
