"""The ServiceSource of a cluster: watches with the rights of the reader's kubeconfig."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from isvc.api_server import ProxyApi
from isvc.source.errors import NOT_INSTALLED, NotInstalled
from isvc.source.follow import follow
from isvc.source.log_ends import LogEnds
from isvc.source.metrics import Metrics, through_the_api_server
from isvc.source.objects import WatchedObjects
from isvc.source.proxy_targets import metrics_target
from isvc.source.reach import Reach
from isvc.source.rights import Rights, rights_of
from isvc.view.changed import Changed
from isvc.view.source import ContainerKey, LogOptions, Related, ServiceRequest, ServiceResponse
from isvc_operator.api import inference_service
from isvc_operator.api.kinds import Role
from isvc_operator.kube.informer.watch_session import WatchSession
from isvc_operator.kube.informer.watching import Watching
from isvc_operator.manifests import ServiceKey, name_of

_RECHECK: Final = 30.0  # seconds, for a kind whose CRD is not installed


@asynccontextmanager
async def cluster_source(
    api: ProxyApi, namespaces: Sequence[str], metrics: Metrics | None = None, *, for_pages: bool = False
) -> AsyncIterator[ClusterSource]:
    """Yield a source that knows all services that there are in the namespaces, without any in the whole cluster.

    ``metrics`` reads those of pods; through the API server without it. ``for_pages``: the ends of logs come later, as
    changes, and what it takes to send requests is asked for, too. Raises OperatorError if the reader may not see the
    services, or if the cluster has none of the kind.
    """
    source = ClusterSource(
        api, await rights_of(api, namespaces, sends=for_pages), metrics or through_the_api_server(api)
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(source.run())
            try:
                await source.filled()
                if not for_pages:
                    await source.logs_known()
                yield source
            finally:
                running.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


class ClusterSource:
    """ServiceSource by the watches of one process, for any number of readers."""

    def __init__(self, api: ProxyApi, rights: Rights, metrics: Metrics) -> None:
        self._metrics = metrics
        self._clock = asyncio.get_running_loop().time
        self._changed = Changed()
        self._objects = WatchedObjects(self._note)
        self._reach = self.reached_by(api)
        self._log_ends = LogEnds(api, self._clock)
        self._hidden = rights.hidden
        watching = Watching(api, self._clock, random.random, recheck=_RECHECK, kept=self._objects.kept_of_list)
        self._session = WatchSession(watching, self._objects)
        self._watches = [self._session.watch_of(item) for item in rights.collections]
        self._due: dict[ServiceKey, float] = {}  # when the logs of a service are read next
        self._reading: set[ServiceKey] = set()  # whose logs are being read
        self._more_due = asyncio.Event()
        self._unread: set[ServiceKey] = set()  # of the first ones, whose logs were not read yet
        self._logs_known = asyncio.Event()
        self._is_filled = False

    async def run(self) -> None:
        """Follow the cluster until cancelled; raises OlderState."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read_logs())
                first = [watch for watch in self._watches if watch.collection.kind.role is not Role.EVENT]
                for watch in first:
                    tasks.create_task(follow(self._session, watch.collection, self._objects))
                for watch in first:  # the pods have to be known, so that the Events of others are not kept
                    await watch.known.wait()
                for watch in self._watches:
                    if watch.collection.kind.role is Role.EVENT:
                        tasks.create_task(follow(self._session, watch.collection, self._objects))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            await self._session.close()

    async def filled(self) -> None:
        """Wait until all that exists is known, but the logs; raises NotInstalled."""
        for watch in self._watches:
            await watch.known.wait()
            if watch.is_missing and watch.collection.kind.name == inference_service.KIND:
                raise NotInstalled(NOT_INSTALLED)
        self._is_filled = True
        self._unread.update(self.keys())
        self._note(self.keys())

    async def logs_known(self) -> None:
        """Wait until the ends of the logs of the first services were read."""
        if self._unread:
            await self._logs_known.wait()

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

    def address(self, key: ServiceKey) -> str:
        """Return the URL that the status has; empty if it has none."""
        url = ((self._objects.service(key) or {}).get("status") or {}).get("url")
        return url.rstrip("/") if isinstance(url, str) else ""

    def changes(self) -> AsyncIterator[frozenset[ServiceKey]]:
        """Yield the services that have changed since the last item, at most five times a second."""
        return self._changed.changes()

    def show_again(self, keys: Iterable[ServiceKey]) -> None:
        """Count these as changed, as somebody sees them otherwise than before."""
        self._changed.note(keys)

    def hidden(self) -> Sequence[str]:
        """Return what the reader may not see."""
        return self._hidden

    def silent(self) -> float:
        """Return for how many seconds a watch has been lost; 0 if all are open."""
        lost = [watch.lost for watch in self._watches if watch.lost is not None]
        return self._clock() - min(lost) if lost else 0.0

    def log(self, key: ContainerKey, options: LogOptions) -> AsyncGenerator[tuple[str | None, str], None]:
        """Yield the lines of a container's log with their times."""
        return self._reach.log(key, options)

    async def metrics(self, key: ServiceKey, pod: str) -> str:
        """Return the metrics of a pod's server in Prometheus' text format; empty if it has none."""
        found = next((item for item in self._objects.pods(key) if name_of(item) == pod), None)
        target = metrics_target(found, self._objects.children(key)) if found else None
        return await self._metrics(found, target) if found and target else ""

    async def send(self, key: ServiceKey, request: ServiceRequest) -> ServiceResponse:
        """Send a request to the service through the API server."""
        return await self._reach.send(key, request)

    def reached_by(self, api: ProxyApi) -> Reach:
        """Return what reads logs and sends requests with the rights of somebody else."""
        return Reach(api, self._objects, self._changed)

    def _note(self, keys: Iterable[ServiceKey]) -> None:
        found = [*keys]
        self._changed.note(found)
        if self._is_filled:
            self._due.update(dict.fromkeys(found, self._clock()))
            self._more_due.set()

    async def _read_logs(self) -> None:
        """Read the logs that are due, each service by itself: a slow node keeps no other one waiting."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._more_due.clear()
                waiting = {key: due for key, due in self._due.items() if key not in self._reading}
                now = self._clock()
                for key in [key for key, due in waiting.items() if due <= now]:
                    del self._due[key], waiting[key]
                    self._reading.add(key)
                    tasks.create_task(self._read_logs_of(key))
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(waiting.values()) - now if waiting else None):
                        await self._more_due.wait()

    async def _read_logs_of(self, key: ServiceKey) -> None:
        before = self._log_ends.of(key)
        again = await self._log_ends.refresh(key, self._objects.pods(key))
        if self._log_ends.of(key) != before:
            self._changed.note([key])
        if again is not None:
            self._due.setdefault(key, self._clock() + again)
        self._reading.discard(key)
        self._more_due.set()
        self._unread.discard(key)
        if not self._unread:
            self._logs_known.set()
