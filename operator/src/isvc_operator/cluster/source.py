"""The ServiceSource of a cluster: watches with the rights of the reader's kubeconfig."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

from isvc_operator.api import inference_service
from isvc_operator.api.kinds import Role
from isvc_operator.cluster.changed import Changed
from isvc_operator.cluster.errors import NotInstalled, NotReachable
from isvc_operator.cluster.log_ends import LogEnds
from isvc_operator.cluster.objects import Objects
from isvc_operator.cluster.pod_log import followed_lines, log_lines
from isvc_operator.cluster.rights import Rights, rights_of
from isvc_operator.cluster.ways_in import metrics_place, service_place
from isvc_operator.kube import requests
from isvc_operator.kube.client import ProxyApi
from isvc_operator.kube.heard import Heard
from isvc_operator.kube.requests import ApiRequest, LogOptions
from isvc_operator.kube.silence import Silence
from isvc_operator.kube.watch import Watch, Watching
from isvc_operator.manifests import ServiceKey, name_of
from isvc_operator.observe.pods import running_instance
from isvc_operator.view.source import ContainerKey, Related, Request, Response

Instance = tuple[int, str]

_RECHECK: Final = 30.0  # seconds, for a kind whose CRD is not installed
_ENDED_WITHIN: Final = 5.0  # seconds after the end of a log, in which its container's end is known, if that was it
_SENT: Final = ("inference-header-content-length", "x-server-timing")  # beside the types of the bodies
_CONNECTION: Final = ("connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding")


@asynccontextmanager
async def cluster_source(api: ProxyApi, namespaces: Sequence[str]) -> AsyncIterator[ClusterSource]:
    """Yield a source that knows all services that there are in the namespaces, without any in the whole cluster.

    Raises OperatorError if the reader may not see them, or if the cluster has no InferenceServices.
    """
    source = ClusterSource(api, await rights_of(api, namespaces))
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(source.run())
            try:
                await source.filled()
                yield source
            finally:
                running.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


class ClusterSource:
    """ServiceSource by the watches of one process, for any number of readers with the same rights."""

    def __init__(self, api: ProxyApi, rights: Rights) -> None:
        self._api = api
        self._clock = asyncio.get_running_loop().time
        self._changed = Changed()
        self._objects = Objects(self._note)
        self._log_ends = LogEnds(api, self._clock)
        self._hidden = rights.hidden
        watching = Watching(
            api, Heard(self._clock), Silence(), random.random, recheck=_RECHECK, kept=self._objects.kept_of_list
        )
        self._watches = [(item, Watch(watching, item, self._objects)) for item in rights.collections]
        self._due: dict[ServiceKey, float] = {}  # when the logs of a service are read next
        self._more_due = asyncio.Event()
        self._is_filled = False

    async def run(self) -> None:
        """Follow the cluster until cancelled; raises OlderState."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_logs())
            first = [watch for collection, watch in self._watches if collection.kind.role is not Role.EVENT]
            for watch in first:
                tasks.create_task(watch.run())
            for watch in first:  # the pods have to be known, so that the Events of others are not kept
                await watch.known.wait()
            for collection, watch in self._watches:
                if collection.kind.role is Role.EVENT:
                    tasks.create_task(watch.run())

    async def filled(self) -> None:
        """Wait until all that exists is known; raises NotInstalled."""
        for collection, watch in self._watches:
            await watch.known.wait()
            if watch.is_missing and collection.kind.name == inference_service.KIND:
                raise NotInstalled(
                    "the cluster has no InferenceServices: install the operator, or KServe's CRDs, first"
                )
        await asyncio.gather(*(self._read_logs_of(key) for key in self.keys()))
        self._is_filled = True
        self._note(self.keys())

    def keys(self) -> Sequence[ServiceKey]:
        """Return the services that there are, in the order of their names."""
        return self._objects.services()

    def related(self, key: ServiceKey) -> Related | None:
        """Return the service with its objects as known now; None if it does not exist."""
        service = self._objects.service(key)
        if service is None:
            return None
        return Related(
            service=service,
            children=self._objects.children(key),
            pods=self._objects.pods(key),
            events=self._objects.events(key),
            runtimes=self._objects.runtimes(key.namespace),
            logs=self._log_ends.of(key),
        )

    def changes(self) -> AsyncIterator[frozenset[ServiceKey]]:
        """Yield the services that have changed since the last item, at most five times a second."""
        return self._changed.changes()

    def hidden(self) -> Sequence[str]:
        """Return what the reader may not see."""
        return self._hidden

    def log(
        self,
        key: ContainerKey,
        *,
        lines: int,
        follow: bool,
        previous: bool = False,
        since_seconds: int | None = None,
    ) -> AsyncIterator[tuple[str | None, str]]:
        """Yield the last lines of a container's log with their times; with ``follow`` until the container ends."""
        options = LogOptions(lines=lines, follow=follow, previous=previous, since_seconds=since_seconds)
        instance = self._instance(key)
        if not follow or instance is None:
            return log_lines(self._api, key, options)
        return followed_lines(self._api, key, options, lambda: self._still_runs(key, instance))

    async def metrics(self, key: ServiceKey, pod: str) -> str:
        """Return the metrics of a pod's server in Prometheus' text format; empty if it has none."""
        found = next((item for item in self._objects.pods(key) if name_of(item) == pod), None)
        place = metrics_place(found, self._objects.children(key)) if found else None
        if place is None:
            return ""
        return await self._api.send(requests.pod_metrics(key.namespace, place.proxied))

    async def send(self, key: ServiceKey, request: Request) -> Response:
        """Send a request to the service through the API server."""
        service = self._objects.service(key)
        place = service_place(service) if service else None
        if place is None:
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
        passed = await self._api.pass_on(requests.through_service(key.namespace, place.proxied, sent))
        received = {name: value for name, value in passed.headers.items() if name.lower() not in _CONNECTION}
        seconds = self._clock() - started
        return Response(status=passed.status, headers=received, body=passed.body, seconds=seconds)

    def _instance(self, key: ContainerKey) -> Instance | None:
        """Return the instance of a container that runs, as far as is known."""
        pod = next((item for item in self._objects.pods(key.service) if name_of(item) == key.pod), None)
        return running_instance(pod, key.container) if pod else None

    async def _still_runs(self, key: ContainerKey, instance: Instance) -> bool:
        """Whether an instance still runs, once its pod has had the time to say so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDED_WITHIN), aclosing(self._changed.changes()) as changes:
                while self._instance(key) == instance:
                    await anext(changes)
        return self._instance(key) == instance

    def _note(self, keys: Iterable[ServiceKey]) -> None:
        found = [*keys]
        self._changed.note(found)
        if self._is_filled:
            self._due.update(dict.fromkeys(found, self._clock()))
            self._more_due.set()

    async def _read_logs(self) -> None:
        while True:
            key = min(self._due, key=self._due.__getitem__, default=None)
            wait = None if key is None else self._due[key] - self._clock()
            if key is not None and wait is not None and wait <= 0:
                del self._due[key]
                await self._read_logs_of(key)
                continue
            self._more_due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._more_due.wait()

    async def _read_logs_of(self, key: ServiceKey) -> None:
        before = self._log_ends.of(key)
        again = await self._log_ends.refresh(key, self._objects.pods(key))
        if self._log_ends.of(key) != before:
            self._changed.note([key])
        if again is not None:
            self._due.setdefault(key, self._clock() + again)
