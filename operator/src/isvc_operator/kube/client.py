"""The client of the API server: the ``KubeApi`` protocol and its implementation with ``kubernetes.aio``."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import ConfigException

from isvc_operator.kube.credentials import Credentials
from isvc_operator.kube.errors import KubeError, ResponseTooLarge, ServerBusy, error_for
from isvc_operator.kube.fence import Fence
from isvc_operator.kube.lease import LATEST_WRITE_SECONDS
from isvc_operator.kube.pause import Pause
from isvc_operator.kube.requests import APPLY_PATCH, LEASES, ApiRequest
from isvc_operator.limits import API_RESPONSE_BYTES, API_RESPONSE_SECONDS, RETRY_AFTER_SECONDS
from isvc_operator.manifests import Manifest

_USER_AGENT: Final = "isvc-operator"
_WATCHES_AGENT: Final = "isvc-watches"  # those of the watches, so that an audit log tells them apart
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_QUOTED: Final = 100  # characters of a response that is not what it should be
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class KubeApi(Protocol):
    """Sends requests. Raises KubeError for any status but 2xx."""

    async def send(self, request: ApiRequest) -> str:
        """Send a request and return the body of the response (JSON for objects)."""
        ...


class WatchApi(KubeApi, Protocol):
    """Also receives responses that go on."""

    def stream(self, request: ApiRequest) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the parts of the response as they come, for as long as they come."""
        ...


class KubernetesApi:
    """WatchApi with the authenticated transport of ``kubernetes.aio``.

    ``pause`` holds requests back while the API server asks for it. ``credentials`` are read again when it refuses them.
    ``write_seconds``: after how long the API server gives up a write that it has received; its own limit without it.
    """

    def __init__(
        self,
        client: ApiClient,
        pause: Pause,
        *,
        credentials: Credentials,
        write_seconds: float | None = None,
    ) -> None:
        self.pause = pause
        self._client = client
        self._credentials = credentials
        self._write_query = () if write_seconds is None else (("timeout", f"{write_seconds:g}s"),)

    async def send(self, request: ApiRequest) -> str:
        """Send a request and return the body of the response (JSON for objects)."""
        if not request.path.startswith(LEASES):  # a leader that does not renew its lease has to restart
            await self.pause.over()
        token, response, text = await self._exchange(request)
        if response.status == _UNAUTHORIZED and await self._credentials.replaced(token):
            _, response, text = await self._exchange(request)
        if 200 <= response.status <= 299:
            self.pause.ended()
            if not request.reads_text and not _is_object(text):
                raise KubeError(0, f"the response of the API server is not an object: {text[:_QUOTED]}")
            return text
        raise self._error(response, text)

    @asynccontextmanager
    async def stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the parts of the response as they come, for as long as they come."""
        await self.pause.over()
        with _as_kube_error():
            async with asyncio.timeout(API_RESPONSE_SECONDS):  # to connect, the TLS handshake included, and be accepted
                token, response = await self._open(request, aiohttp.ClientTimeout(total=None))
            try:
                if response.status != _OK:
                    async with asyncio.timeout(API_RESPONSE_SECONDS):
                        text = await _read(response)
                    if response.status == _UNAUTHORIZED:
                        await self._credentials.replaced(token)
                    raise self._error(response, text)
                self.pause.ended()
                yield response.content.iter_any()
            finally:
                response.close()

    def _error(self, response: Any, text: str) -> KubeError:
        """Return the error of a response, and begin the pause that it asks for."""
        error = error_for(response.status, text, _retry_after(response.headers))
        if isinstance(error, ServerBusy):
            self.pause.begin(error.retry_after or 0, str(error))
        return error

    async def _exchange(self, request: ApiRequest) -> tuple[str | None, Any, str]:
        """Return the token with which the request was sent, and its response with the body."""
        with _as_kube_error():
            token, response = await self._open(request, API_RESPONSE_SECONDS)
            try:
                return token, response, await _read(response)
            finally:
                response.release()

    async def _open(self, request: ApiRequest, timeout: float | aiohttp.ClientTimeout) -> tuple[str | None, Any]:
        """Return the token with which the request was sent, and its response."""
        content_type, body = request.content_type, cast(Any, request.body)
        if content_type == APPLY_PATCH:
            # With a parameter, the library sends the body as it is.
            content_type, body = f"{APPLY_PATCH}; charset=utf-8", _as_yaml(body)
        serialized = await self._client.param_serialize(
            request.method,
            request.path,
            query_params=[*request.query, *(() if request.method == "GET" else self._write_query)],
            header_params={"Content-Type": content_type, "Accept": request.accept},
            body=body,
            auth_settings=["BearerToken"],
        )
        token = self._credentials.token
        try:
            return token, (await self._client.call_api(*serialized, _request_timeout=cast(Any, timeout))).response
        except aiohttp.ClientConnectorCertificateError:
            await self._credentials.trust_again(self._client.rest_client.ssl_context)  # for the next attempt
            raise


@contextmanager
def _as_kube_error() -> Iterator[None]:
    try:
        yield
    except ConfigException as error:
        raise KubeError(0, f"the credentials for the API server cannot be read: {error}") from error
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise KubeError(0, f"no response from the API server: {str(error) or type(error).__name__}") from error


async def _read(response: Any) -> str:
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > API_RESPONSE_BYTES:
            response.close()
            raise ResponseTooLarge(0, f"the API server's response has more than {API_RESPONSE_BYTES} bytes")
    return b"".join(parts).decode(errors="replace")


def _is_object(text: str) -> bool:
    """Whether the text is JSON of an object by its ends: a proxy may send a page, or cut it off."""
    return text.lstrip().startswith("{") and text.rstrip().endswith("}")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After, at most RETRY_AFTER_SECONDS; a date there is not Kubernetes'."""
    value = headers.get("Retry-After", "")
    return min(float(value), RETRY_AFTER_SECONDS) if value.isascii() and value.isdecimal() else None


def _as_yaml(manifest: Manifest | None) -> bytes:
    """Return JSON that is YAML as well: an emoji is no surrogate pair, what YAML does not print is escaped."""
    text = json.dumps(manifest, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode(errors="replace")


@asynccontextmanager
async def connect(
    kubeconfig: str | None,
    *,
    observed_by: Sequence[aiohttp.TraceConfig] = (),
    fence: Fence | None = None,
    identity: str = "",
) -> AsyncIterator[KubernetesApi]:
    """Yield a KubeApi, which is closed at the end of the block; ``observed_by``: what sees its requests.

    ``fence``: what stops its writes. ``identity``: which of several replicas it belongs to, for the audit log.
    """
    traces = [*observed_by, *([fence.trace()] if fence else [])]
    async with _connected(kubeconfig, _named(_USER_AGENT, identity), traces) as (client, pause, credentials):
        yield KubernetesApi(
            client, pause, credentials=credentials, write_seconds=LATEST_WRITE_SECONDS if fence else None
        )


@asynccontextmanager
async def connect_watches(
    kubeconfig: str | None,
    *,
    observed_by: Sequence[aiohttp.TraceConfig] = (),
    identity: str = "",
    pause: Pause | None = None,
) -> AsyncIterator[KubernetesApi]:
    """Yield a WatchApi for watches, each of which keeps a connection; ``pause``: that of another client."""
    async with _connected(kubeconfig, _named(_WATCHES_AGENT, identity), observed_by) as (client, own, credentials):
        yield KubernetesApi(client, pause or own, credentials=credentials)


def _named(agent: str, identity: str) -> str:
    return f"{agent}/{identity}" if identity else agent


@asynccontextmanager
async def _connected(
    kubeconfig: str | None, agent: str, observed_by: Sequence[aiohttp.TraceConfig]
) -> AsyncIterator[tuple[ApiClient, Pause, Credentials]]:
    credentials = Credentials(kubeconfig)
    await credentials.load()
    configuration = credentials.configuration
    configuration.trace_configs = list(observed_by)
    configuration.connection_pool_maxsize = 0  # no limit: a watch keeps its connection
    # aiohttp would read the environment, and the file netrc, for each request.
    configuration.proxy = configuration.proxy or _proxy_for(configuration.host)
    configuration.client_session_kwargs = {"trust_env": False, "cookie_jar": aiohttp.DummyCookieJar()}
    async with ApiClient(configuration) as client:
        client.user_agent = agent
        client.set_default_header("Accept-Encoding", "identity")  # to compress costs the API server more than it saves
        yield client, Pause(asyncio.get_running_loop().time, random.random), credentials


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for the API server."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
