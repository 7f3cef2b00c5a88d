"""The connections of the Kubernetes client, all of which have ended when they are closed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from ssl import SSLContext
from typing import Any, Final
from weakref import WeakSet

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

_TURNS: Final = 100  # of the event loop at most, in which it closes what has ended; it takes about five


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
    event loop may have ended. If it was about to begin TLS, asyncio forgets it. Neither is aiohttp's any more.
    """

    def __init__(self, *, limit: int, ssl: SSLContext) -> None:
        super().__init__(limit=limit, ssl=ssl, socket_factory=self._new_socket)
        self._sockets = WeakSet[socket.socket]()

    async def close(self, *, abort_ssl: bool = False) -> None:
        await super().close(abort_ssl=abort_ssl)
        for one in self._sockets:
            with contextlib.suppress(OSError):  # it is closed, or was not connected yet
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS):
            if all(one.fileno() < 0 for one in self._sockets):
                break
            await asyncio.sleep(0)

    def _new_socket(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made
