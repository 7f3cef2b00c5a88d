"""Finds where a service of a cluster answers, and forwards a port of one of its pods where there is no ingress."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

from isvc.api_server import PersonsApi
from isvc.predict.errors import PredictFailed
from isvc.predict.port_forward import forwarded
from isvc.predict.target import (
    Target,
    address_of_gateway,
    address_of_ingress,
    entry_of,
    gateway_of,
    is_ready,
    of_service,
    published_url,
    target_port,
    trouble_of,
    what_is_missing,
)
from isvc.view.source import Related
from isvc_operator.api.names import LABEL_COMPONENT, LABEL_SERVICE
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError, ObjectNotFound
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.resolve.requested import component_name

_GATEWAYS = "/apis/gateway.networking.k8s.io/v1/namespaces/{}/gateways/{}"


async def find_service(api: KubeApi, namespace: str, name: str) -> Manifest:
    """Return the service; raises KubeError, for one that does not exist with what to do."""
    try:
        return await _read(api, requests.get("InferenceService", namespace, name))
    except ObjectNotFound as error:
        raise error.reworded(
            f"there is no InferenceService {name} in namespace {namespace}; name its namespace with -n"
        ) from error


async def find_target(api: KubeApi, service: Manifest, address: str | None) -> Target:
    """Return where the service answers: by ``address``, or that of its Ingress or Gateway, or by its own host.

    Raises PredictFailed for a service without a URL.
    """
    scheme = urlsplit(published_url(service)).scheme
    found = of_service(service, address or await _address(api, service, scheme))
    return replace(found, trouble=trouble_of(Related(service=service)))


async def _address(api: KubeApi, service: Manifest, scheme: str) -> str | None:
    namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
    ingress = await _read_if_any(api, requests.get("Ingress", namespace, name))
    if found := ingress and address_of_ingress(ingress):
        return found
    route = await _read_if_any(api, requests.get("HTTPRoute", namespace, name))
    parent = route and gateway_of(route)
    gateway = parent and await _read_if_any(api, requests.ApiRequest("GET", _GATEWAYS.format(*parent)))
    return address_of_gateway(gateway, scheme) if gateway else None


@asynccontextmanager
async def forwarded_target(api: PersonsApi, service: Manifest) -> AsyncIterator[Target]:
    """Yield a target that leads to a ready pod of the service through the API server.

    Raises PredictFailed if none is ready, and with the reason if the pod cannot be reached.
    """
    namespace, name, entry = service["metadata"]["namespace"], service["metadata"]["name"], entry_of(service)
    selector = (("labelSelector", f"{LABEL_SERVICE}={name},{LABEL_COMPONENT}={entry}"),)
    listed = await _read(api, requests.ApiRequest("GET", requests.path_of("Pod", namespace), selector))
    pod = next(filter(is_ready, listed.get("items") or ()), None)
    if pod is None:
        raise PredictFailed(f"no pod of InferenceService {name} is ready: {what_is_missing(service)}")
    kube_service = await _read(api, requests.get("Service", namespace, _service_of(service, entry)))
    port = target_port(kube_service, pod)
    if port is None:
        raise PredictFailed(f"Service {kube_service['metadata']['name']} names a port that pod {name_of(pod)} lacks")
    host = f"{kube_service['metadata']['name']}.{namespace}.svc"
    if urlsplit(str(service.get("status", {}).get("address", {}).get("url", ""))).scheme == "https":
        raise PredictFailed(f"the pods of InferenceService {name} serve TLS, which --port-forward does not speak")
    async with forwarded(api, namespace, name_of(pod), port) as found:
        try:
            yield Target(f"http://{host}", host, found.socket)
        except PredictFailed as error:
            if found.problems:
                raise PredictFailed(
                    f"port {port} of pod {name_of(pod)} cannot be reached: {found.problems[0]}"
                ) from error
            raise


def _service_of(service: Manifest, entry: str) -> str:
    """Return the name of the Kubernetes Service of the component that gets the requests."""
    return component_name(name_of(service), entry, service["spec"].get("predictor", {}).get("name"))


async def _read(api: KubeApi, request: requests.ApiRequest) -> Manifest:
    read: Manifest = requests.decode(await api.send(request))
    return read


async def _read_if_any(api: KubeApi, request: requests.ApiRequest) -> Manifest | None:
    """Return the object; None if it does not exist, or the caller may not read it."""
    try:
        return await _read(api, request)
    except KubeError as error:
        if error.status in (403, 404):
            return None
        raise
