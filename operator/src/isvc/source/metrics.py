"""The metrics of pods: through the API server for somebody with a kubeconfig, directly for a process in the cluster."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from isvc.api_server import ProxyApi
from isvc.limits import DASHBOARD_METRICS_BYTES
from isvc.source.errors import NotReachable
from isvc.source.proxy_targets import ProxyTarget
from isvc_operator.kube.requests import ApiRequest, path_of
from isvc_operator.manifests import Manifest
from isvc_operator.responses import read_up_to

_SECONDS: Final = 5.0
_OK: Final = 200

# Returns the metrics at a target of a pod.
Metrics = Callable[[Manifest, ProxyTarget], Awaitable[str]]


def through_the_api_server(api: ProxyApi) -> Metrics:
    """Return what reads metrics with the caller's rights: ``get`` for ``pods/proxy``."""

    async def metrics(pod: Manifest, target: ProxyTarget) -> str:
        path = path_of("Pod", pod["metadata"]["namespace"], target.proxied) + "/proxy/metrics"
        request = ApiRequest("GET", path, accept="text/plain", reads_text=True)
        response = await api.proxy(request, seconds=_SECONDS, limit=DASHBOARD_METRICS_BYTES)
        return _text(target, response.status, response.body)

    return metrics


@asynccontextmanager
async def from_pods() -> AsyncIterator[Metrics]:
    """Yield what reads metrics from the pods themselves, as Prometheus does: it needs no rights, but their network."""
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def metrics(pod: Manifest, target: ProxyTarget) -> str:
            url = f"{target.scheme}://{_address(pod)}:{target.port}/metrics"
            try:
                # A pod's certificate has the name of its Service, and nothing secret is sent.
                async with session.get(url, allow_redirects=False, ssl=False) as response:
                    content = await read_up_to(response, DASHBOARD_METRICS_BYTES)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise NotReachable(f"pod {target.name} does not respond: {error}") from error
            return _text(target, response.status, content)

        yield metrics


def _text(target: ProxyTarget, status: int, content: bytes) -> str:
    if status != _OK:
        raise NotReachable(f"pod {target.name} has no metrics (HTTP {status})")
    if len(content) > DASHBOARD_METRICS_BYTES:
        raise NotReachable(f"the metrics of pod {target.name} have more than {DASHBOARD_METRICS_BYTES} bytes")
    return content.decode(errors="replace")


def _address(pod: Manifest) -> str:
    """Return the pod's address for a URL; raises NotReachable for one that is this host's own, or none."""
    try:
        address = ipaddress.ip_address((pod.get("status") or {}).get("podIP") or "")
    except ValueError as error:
        raise NotReachable("the pod has no address yet") from error
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        raise NotReachable(f"{address} is not the address of a pod")
    return f"[{address}]" if address.version == 6 else str(address)
