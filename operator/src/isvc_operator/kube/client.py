"""The client of the API server: the ``KubeApi`` protocol and its implementation with ``kubernetes.aio``."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import aiohttp
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client import ApiClient, Configuration
from yaml import YAMLError

from isvc_operator.errors import ConfigError
from isvc_operator.kube.errors import KubeError, error_for
from isvc_operator.kube.fence import Fence
from isvc_operator.kube.lease import LATEST_WRITE_SECONDS
from isvc_operator.kube.nesting import shallow
from isvc_operator.kube.requests import APPLY_PATCH, ApiRequest
from isvc_operator.limits import API_RESPONSE_SECONDS
from isvc_operator.manifests import Manifest

_USER_AGENT = "isvc-operator"
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class KubeApi(Protocol):
    """Sends requests. Raises KubeError for any status but 2xx."""

    async def send(self, request: ApiRequest) -> str:
        """Send a request and return the body of the response (JSON for objects)."""
        ...


class KubernetesApi:
    """KubeApi with the authenticated transport of ``kubernetes.aio``.

    ``write_seconds``: after how long the API server gives up a write that it has received; its own limit without it.
    """

    def __init__(self, client: ApiClient, write_seconds: float | None = None) -> None:
        self._client = client
        self._write_query = () if write_seconds is None else (("timeout", f"{write_seconds:g}s"),)

    async def send(self, request: ApiRequest) -> str:
        """Send a request and return the body of the response (JSON for objects)."""
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
        try:
            response = await self._client.call_api(*serialized, _request_timeout=API_RESPONSE_SECONDS)
            text: str = shallow(await response.response.read()).decode(errors="replace")
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise KubeError(0, f"no response from the API server: {str(error) or type(error).__name__}") from error
        if not 200 <= response.status <= 299:
            raise error_for(response.status, _message_of(text) or f"HTTP {response.status}")
        return text


def _as_yaml(manifest: Manifest | None) -> bytes:
    """Return JSON that is YAML as well: an emoji is no surrogate pair, what YAML does not print is escaped."""
    text = json.dumps(manifest, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode(errors="replace")


def _message_of(text: str) -> str:
    """Return the message of a Status object, or the text itself."""
    try:
        body: Any = json.loads(text)
    except ValueError:
        return text[:500]
    return str(body.get("message", text[:500])) if isinstance(body, dict) else text[:500]


async def load_configuration(kubeconfig: str | None) -> Configuration:
    """Load the credentials of ``kubeconfig`` or else of the pod's service account; raises ConfigError."""
    configuration = Configuration()
    try:
        if kubeconfig:
            await kubernetes_config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
        else:
            kubernetes_config.load_incluster_config(client_configuration=configuration)
    except (kubernetes_config.ConfigException, YAMLError, OSError) as error:
        where = (
            f"kubeconfig {kubeconfig} cannot be used" if kubeconfig else "no kubeconfig is set, and this is not a pod"
        )
        raise ConfigError(
            f"{where} ({error}); set KUBECONFIG or --kubeconfig to a file that kubectl can use"
        ) from error
    return configuration


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
    configuration = await load_configuration(kubeconfig)
    configuration.trace_configs = [*observed_by, *([fence.trace()] if fence else [])]
    async with ApiClient(configuration) as client:
        client.user_agent = f"{_USER_AGENT}/{identity}" if identity else _USER_AGENT
        yield KubernetesApi(client, LATEST_WRITE_SECONDS if fence else None)
