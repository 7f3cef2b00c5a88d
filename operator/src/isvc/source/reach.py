"""Logs of a cluster's containers and requests to its services, with the rights of whoever asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Final

from isvc.api_server import ProxyApi
from isvc.source.errors import NotReachable
from isvc.source.objects import WatchedObjects
from isvc.source.pod_log import log_lines
from isvc.source.proxy_targets import answer_seconds, service_target
from isvc.view.changed import Changed
from isvc.view.source import ContainerKey, LogOptions, ServiceRequest, ServiceResponse
from isvc_operator.kube.requests import ApiRequest, path_of
from isvc_operator.limits import API_RESPONSE_SECONDS
from isvc_operator.manifests import ServiceKey, name_of

Instance = tuple[int, str]

_ENDED_WITHIN: Final = 5.0  # seconds after the end of a log, in which its container's end is known, if that was it
_SENT: Final = ("inference-header-content-length", "x-server-timing")  # beside the types of the bodies
_CONNECTION: Final = ("connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding")


def through_service(namespace: str, service: str, request: ApiRequest) -> ApiRequest:
    """Send a request through the API server to a Service; ``service`` is ``SCHEME:NAME:PORT``."""
    return replace(request, path=path_of("Service", namespace, service) + f"/proxy{request.path}")


class Reach:
    """Reads logs and sends requests through ``api``. ``objects`` are known, and ``changed`` says when they change."""

    def __init__(self, api: ProxyApi, objects: WatchedObjects, changed: Changed) -> None:
        self._api = api
        self._objects = objects
        self._changed = changed
        self._clock = asyncio.get_running_loop().time

    def log(self, key: ContainerKey, options: LogOptions) -> AsyncGenerator[tuple[str | None, str], None]:
        """Yield the lines of a container's log with their times."""
        instance = self._instance(key) if options.follow else None
        return log_lines(self._api, key, options, lambda: self._still_runs(key, instance))

    async def send(self, key: ServiceKey, request: ServiceRequest) -> ServiceResponse:
        """Send a request to the service through the API server."""
        service = self._objects.service(key)
        target = service_target(service) if service else None
        if target is None:
            raise NotReachable(f"InferenceService {key.name} has no address yet; isvc status {key.name} says why")
        given = {name.lower(): value for name, value in request.headers.items()}
        sent = ApiRequest(
            request.method,
            request.path,
            body=request.body or None,
            content_type=given.get("content-type", "application/json"),
            accept=given.get("accept", "*/*"),
            headers=tuple((name, given[name]) for name in _SENT if name in given),
        )
        started = self._clock()
        # To say which models there are does not take the time of a prediction.
        seconds = answer_seconds(service or {}) if request.method == "POST" else API_RESPONSE_SECONDS
        response = await self._api.proxy(through_service(key.namespace, target.proxied, sent), seconds=seconds)
        received = {name: value for name, value in response.headers.items() if name.lower() not in _CONNECTION}
        took = self._clock() - started
        return ServiceResponse(status=response.status, headers=received, body=response.body, seconds=took)

    def _instance(self, key: ContainerKey) -> Instance | None:
        """Return the instance of a container that runs, as far as is known."""
        pod = next((item for item in self._objects.pods(key.service) if name_of(item) == key.pod), None)
        for field in ("initContainerStatuses", "containerStatuses"):
            for status in ((pod or {}).get("status") or {}).get(field) or ():
                running = status.get("state", {}).get("running")
                if status["name"] == key.container and running is not None:
                    return status.get("restartCount", 0), running.get("startedAt", "")
        return None

    async def _still_runs(self, key: ContainerKey, instance: Instance | None) -> bool:
        """Whether there is an instance that still runs, once its pod has had the time to say so."""
        if instance is None:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDED_WITHIN), aclosing(self._changed.changes()) as changes:
                while self._instance(key) == instance:
                    await anext(changes)
        return self._instance(key) == instance
