"""The client of the API server: the ``KubeApi`` protocol and its implementation with the Kubernetes client."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Final, Protocol
from urllib.parse import urlencode

import aiohttp

from isvc_operator.kube.calls import ApiCalls, resource_of, verb_of
from isvc_operator.kube.connections import ApiConnections
from isvc_operator.kube.credentials import Credentials, credentials_of
from isvc_operator.kube.errors import KubeError, ResponseTooLarge, ServerBusy, error_for, refused_by
from isvc_operator.kube.pause import Pause
from isvc_operator.kube.requests import LEASES, VERSION, ApiRequest
from isvc_operator.limits import API_RESPONSE_BYTES, API_RESPONSE_SECONDS, RETRY_AFTER_SECONDS
from isvc_operator.manifests import Manifest
from isvc_operator.responses import read_up_to

_USER_AGENT: Final = "isvc-operator"
WATCHES_AGENT: Final = "isvc-watches"  # of the operator's watches, so that an audit log tells them apart
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_KIND: Final = '"kind"'  # every object has one
_QUOTED: Final = 100  # characters of a response that is not what it should be
_NOBODY: Final = ApiCalls()  # is told of requests
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class KubeApi(Protocol):
    """Sends requests. Raises KubeError for any status but 2xx."""

    async def send(self, request: ApiRequest) -> str:
        """Send a request and return the body of the response (JSON for objects)."""


class WatchApi(KubeApi, Protocol):
    """Also receives responses that go on."""

    def stream(self, request: ApiRequest) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the parts of the response as they come, for as long as they come."""


class KubernetesApi:
    """WatchApi with the Kubernetes client's connections.

    ``pause`` holds requests back while the API server asks for it. ``credentials`` are read again when it refuses them.
    ``write_seconds``: after how long the API server gives up a write that it has received; its own limit without it.
    """

    def __init__(
        self,
        connections: ApiConnections,
        pause: Pause,
        *,
        credentials: Credentials,
        write_seconds: float | None = None,
        calls: ApiCalls = _NOBODY,
    ) -> None:
        self.pause = pause
        self._calls = calls
        self._connections = connections
        self._session = connections.session
        self._credentials = credentials
        self._proxy = credentials.proxy
        self._write_query = () if write_seconds is None else (("timeout", f"{write_seconds:g}s"),)

    @property
    def server(self) -> str:
        return self._credentials.server

    async def send(self, request: ApiRequest) -> str:
        if not request.path.startswith(LEASES):  # a leader that does not renew its lease has to restart
            await self.pause.over()
        authorization, response, text = await self._exchange(request)
        if response.status == _UNAUTHORIZED and await self._credentials.replaced(authorization):
            _, response, text = await self._exchange(request)
        if 200 <= response.status <= 299:
            self.pause.ended()
            if not request.reads_text and not (_is_object(text) and (_KIND in text or request.path == VERSION)):
                raise KubeError(0, f"the response of the API server is not an object: {text[:_QUOTED]}")
            return text
        raise self._error(request, response, text)

    @asynccontextmanager
    async def stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        await self.pause.over()
        with as_kube_error():
            # To connect, the TLS handshake included, and be accepted.
            async with asyncio.timeout(None if request.begins_late else API_RESPONSE_SECONDS):
                authorization, response = await self._open(request, None)
            try:
                if response.status != _OK:
                    async with asyncio.timeout(API_RESPONSE_SECONDS):
                        text = await _read(response)
                    if response.status == _UNAUTHORIZED:
                        await self._credentials.replaced(authorization)
                    raise self._error(request, response, text)
                self.pause.ended()
                yield response.content.iter_any()
            finally:
                response.close()

    def _error(self, request: ApiRequest, response: aiohttp.ClientResponse, text: str) -> KubeError:
        """Return the error of a response, tell of a refusal, and begin the pause that it asks for."""
        error = error_for(response.status, text, _retry_after(response.headers))
        if by := refused_by(error):
            verb = verb_of(request.method, request.path, dict(request.query))
            self._calls.refused(verb, resource_of(request.path), by)
        if isinstance(error, ServerBusy):
            self.pause.begin(error.retry_after or 0, str(error))
        return error

    async def _exchange(self, request: ApiRequest) -> tuple[str | None, aiohttp.ClientResponse, str]:
        """Return the authorization with which the request was sent, and its response with the body."""
        with as_kube_error():
            authorization, response = await self._open(request, API_RESPONSE_SECONDS)
            try:
                return authorization, response, await _read(response)
            finally:
                response.release()

    async def _open(self, request: ApiRequest, seconds: float | None) -> tuple[str | None, aiohttp.ClientResponse]:
        """Return the authorization with which the request was sent, and its response, which ends in these seconds."""
        authorization = await self._credentials.authorization()
        query = [*request.query, *(() if request.method == "GET" else self._write_query)]
        try:
            with self._calls.sending(request.method, request.path, dict(request.query)) as responded:
                response = await self._session.request(
                    request.method,
                    f"{self.server}{request.path}?{urlencode(query)}",
                    data=_serialized(request.body) if isinstance(request.body, Mapping) else request.body,
                    headers={
                        **dict(request.headers),
                        "Content-Type": request.content_type,
                        "Accept": request.accept,
                        **({"Authorization": authorization} if authorization else {}),
                    },
                    timeout=aiohttp.ClientTimeout(total=seconds, connect=API_RESPONSE_SECONDS),
                    allow_redirects=False,
                    server_hostname=self._credentials.configuration.tls_server_name,
                    proxy=self._proxy,
                )
                responded(response.status)
            return authorization, response
        except aiohttp.ClientConnectorCertificateError:  # for the next attempt
            await self._credentials.load_again()
            self._trust_new_authority()
            raise

    def _trust_new_authority(self) -> None:
        """Trust what the authority's file has now, too: another one, perhaps."""
        with suppress(OSError):
            if authority := self._credentials.configuration.ssl_ca_cert:
                self._connections.ssl_context.load_verify_locations(authority)


@contextmanager
def as_kube_error() -> Iterator[None]:
    """Raise KubeError where no response comes."""
    try:
        yield
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise KubeError(0, f"no response from the API server: {str(error) or type(error).__name__}") from error


async def _read(response: aiohttp.ClientResponse) -> str:
    return (await read_bytes(response, API_RESPONSE_BYTES)).decode(errors="replace")


async def read_bytes(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the body; raises ResponseTooLarge if it has more than ``limit`` bytes."""
    content = await read_up_to(response, limit)
    if len(content) > limit:
        response.close()
        raise ResponseTooLarge(0, f"the response has more than {limit} bytes")
    return content


def _is_object(text: str) -> bool:
    """Whether the text is JSON of an object by its ends: a proxy may send a page, or cut it off."""
    return text.lstrip().startswith("{") and text.rstrip().endswith("}")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After, at most RETRY_AFTER_SECONDS; a date there is not Kubernetes'."""
    value = headers.get("Retry-After", "")
    return min(float(value), RETRY_AFTER_SECONDS) if value.isascii() and value.isdecimal() else None


def _serialized(manifest: Manifest) -> bytes:
    """Return JSON that is YAML as well: an emoji is not a surrogate pair, what YAML does not print is escaped."""
    text = json.dumps(manifest, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode(errors="replace")


@asynccontextmanager
async def connect(
    kubeconfig: str | None,
    *,
    calls: ApiCalls = _NOBODY,
    fence: aiohttp.TraceConfig | None = None,
    identity: str = "",
    agent: str = _USER_AGENT,
    pause: Pause | None = None,
    write_seconds: float | None = None,
) -> AsyncIterator[KubernetesApi]:
    """Yield a client, which is closed at the end of the block; ``fence``: what stops its writes.

    ``agent`` is the name for the audit log, ``identity`` which of several replicas it belongs to. ``pause``: that of
    another client. ``write_seconds``: after how long the API server gives up a write; its own limit without it.
    """
    credentials = await credentials_of(kubeconfig)
    async with connected(credentials, f"{agent}/{identity}" if identity else agent, fence) as connections:
        yield KubernetesApi(
            connections, pause or new_pause(), credentials=credentials, write_seconds=write_seconds, calls=calls
        )


@asynccontextmanager
async def connected(
    credentials: Credentials, agent: str, fence: aiohttp.TraceConfig | None = None
) -> AsyncIterator[ApiConnections]:
    """Yield the client's connections, which are closed at the end of the block."""
    connections = credentials.connect(agent, fence)
    try:
        yield connections
    finally:
        await connections.close()


def new_pause() -> Pause:
    """Return a pause that nobody has asked for yet."""
    return Pause(asyncio.get_running_loop().time, random.random)
