"""The API server for people: a client that also reaches pods through it, with one's own credentials or a token."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlencode

import aiohttp

from isvc.kubeconfig import check_kubeconfig
from isvc.limits import PROXIED_BYTES
from isvc_operator.kube.client import KubernetesApi, WatchApi, as_kube_error, connected, new_pause, read_bytes
from isvc_operator.kube.credentials import BEARER, Credentials, credentials_of, new_configuration
from isvc_operator.kube.errors import KubeError, error_for
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.limits import API_RESPONSE_SECONDS

_AGENT: Final = "isvc"
_REFUSED: Final = 400
_STATUS_OBJECT: Final = re.compile(rb'^\s*{\s*"kind"\s*:\s*"Status"')  # what the API server says itself
_BEGINNING: Final = 100  # bytes of a response


class ProxiedResponse(NamedTuple):
    """The response of a pod to which the API server has passed a request on."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ProxyApi(WatchApi, Protocol):
    """Also reaches pods through the API server."""

    async def proxy(
        self, request: ApiRequest, *, seconds: float = API_RESPONSE_SECONDS, limit: int = PROXIED_BYTES
    ) -> ProxiedResponse:
        """Send a request that the API server passes on to a pod, and return what comes back, whatever its status.

        It may take so many ``seconds``, and have ``limit`` bytes.
        """
        ...


class PersonsApi(KubernetesApi):
    """ProxyApi with the Kubernetes client's connections."""

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context."""
        return self._credentials.namespace or "default"

    async def proxy(
        self, request: ApiRequest, *, seconds: float = API_RESPONSE_SECONDS, limit: int = PROXIED_BYTES
    ) -> ProxiedResponse:
        """Send a request that the API server passes on to a pod, and return what comes back, whatever its status.

        What a pod says is not the API server's word: it begins no pause, and no credentials are read again for it.
        Raises KubeError if the API server itself has refused it, or has not reached a pod, or if it takes longer than
        ``seconds`` or has more than ``limit`` bytes.
        """
        await self.pause.over()
        with as_kube_error():
            try:
                _, response = await self._open(request, seconds)
                try:
                    body = await read_bytes(response, limit)
                finally:
                    response.release()
            except TimeoutError as error:
                if isinstance(error, aiohttp.ServerTimeoutError):  # the API server's: there was no connection
                    raise
                raise KubeError(0, f"no response within {seconds:g} s") from error
        if response.status >= _REFUSED and _STATUS_OBJECT.search(body[:_BEGINNING]):
            raise error_for(response.status, body.decode(errors="replace"))
        return ProxiedResponse(response.status, dict(response.headers), body)

    @asynccontextmanager
    async def websocket(
        self, request: ApiRequest, protocol: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
        """Yield a websocket for messages of bytes, in this subprotocol."""
        with as_kube_error():
            authorization = await self._credentials.authorization()
            try:
                async with asyncio.timeout(API_RESPONSE_SECONDS):
                    channel = await self._session.ws_connect(
                        f"{self.server}{request.path}?{urlencode(request.query)}",
                        protocols=(protocol,),
                        headers={"Authorization": authorization} if authorization else {},
                        server_hostname=self._credentials.configuration.tls_server_name,
                        proxy=self._proxy,
                    )
            except aiohttp.WSServerHandshakeError as error:
                raise error_for(error.status, "") from error
        async with channel:
            yield channel


@asynccontextmanager
async def connect(kubeconfig: str | None, *, context: str | None = None) -> AsyncIterator[PersonsApi]:
    """Yield a client, which is closed at the end of the block; ``context``: which of the kubeconfig's, or the current.

    Raises ConfigError for credentials that cannot be used.
    """
    credentials = await _credentials_of(kubeconfig, context)
    async with connected(credentials, _AGENT) as connections:
        yield PersonsApi(connections, new_pause(), credentials=credentials)


@asynccontextmanager
async def connect_others(
    kubeconfig: str | None, *, context: str | None = None
) -> AsyncIterator[Callable[[str], PersonsApi]]:
    """Yield what makes a client of another's token. Its requests have nothing of this process's own credentials.

    Each has a pause of its own: the API server's limits are those of a user, who must not hold back others.
    """
    own = await _credentials_of(kubeconfig, context)
    async with connected(of_token(own, ""), _AGENT) as connections:
        yield lambda token: PersonsApi(connections, new_pause(), credentials=of_token(own, token))


async def _credentials_of(kubeconfig: str | None, context: str | None) -> Credentials:
    if kubeconfig:
        check_kubeconfig(kubeconfig, context)
    return await credentials_of(kubeconfig, context=context)


def of_token(own: Credentials, token: str) -> Credentials:
    """Return those of the owner of a token for the same API server, with nothing of one's ``own``."""
    theirs = new_configuration()
    for name in ("host", "ssl_ca_cert", "verify_ssl", "tls_server_name", "proxy"):
        setattr(theirs, name, getattr(own.configuration, name))
    if token:
        theirs.api_key[BEARER] = f"Bearer {token}"
    return Credentials(_nothing, theirs)


async def _nothing(_: Any) -> str | None:
    """Another's token is that person's to renew."""
    return None
