"""The connections of the Kubernetes client, all of which have ended when they are closed."""

from __future__ import annotations

import asyncio
from ssl import SSLContext
from weakref import WeakSet

import aiohttp
from aiohttp.connector import Connection
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject


class ApiConnections(RESTClientObject):  # type: ignore[misc]  # the client has no types
    """The client's connections; its session is there from the start."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.session: aiohttp.ClientSession = self._create_pool_manager()
        self.pool_manager = self.session  # which the client makes with its first request, and closes

    def _create_connector(self) -> aiohttp.TCPConnector:
        return _Connector(limit=self.maxsize, ssl=self.ssl_context)


class _Connector(aiohttp.TCPConnector):
    """Ends what it has given up, too, when it is closed.

    The connection of a request that was cancelled says goodbye by TLS, and waits for the other side's; by then the
    event loop may have ended. A connection that says goodbye is not one of aiohttp's any more.
    """

    def __init__(self, *, limit: int, ssl: SSLContext) -> None:
        super().__init__(limit=limit, ssl=ssl)
        self._made = WeakSet[asyncio.Transport]()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if connection.transport is not None:
            self._made.add(connection.transport)
        return connection

    async def close(self, *, abort_ssl: bool = False) -> None:
        await super().close(abort_ssl=abort_ssl)
        for transport in self._made:
            transport.abort()
        await asyncio.sleep(0)  # in which asyncio closes the sockets
