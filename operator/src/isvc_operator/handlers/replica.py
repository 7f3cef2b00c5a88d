"""One replica of the operator: it takes what kopf watches, and reconciles all services while it leads."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from isvc_operator.api.inference_service import KIND
from isvc_operator.config import OperatorConfig
from isvc_operator.controller.reconcile import Reconciler
from isvc_operator.controller.worker import Worker
from isvc_operator.handlers.configuration import POLL
from isvc_operator.handlers.watches import Affected, service_keys
from isvc_operator.kube.ignored_settings import IgnoredSettings
from isvc_operator.kube.informer.scope import Scope
from isvc_operator.kube.informer.watch_session import WatchSession
from isvc_operator.kube.informer.watching import Watch, Watching
from isvc_operator.kube.leader import Election
from isvc_operator.kube.pause import Pause
from isvc_operator.manifests import Manifest, ServiceKey
from isvc_operator.observe.conditions import phase_of, service_conditions
from isvc_operator.telemetry.snapshot import Snapshot

log = logging.getLogger(__name__)

_COMPLETE_SECONDS: Final = 1.0  # until a service is looked at again whose namespace was not listed yet


class Replica:
    """Queues the services that changes affect once it leads; without an ``election`` it always leads.

    Nothing is reconciled before it has a configuration. ``pause`` is that of all requests, ``clock`` counts seconds.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        worker: Worker,
        *,
        watching: Watching,
        scope: Scope,
        reports: IgnoredSettings,
        pause: Pause,
        election: Election | None,
        clock: Callable[[], float],
    ) -> None:
        self._reconciler = reconciler
        self._cache = reconciler.cache
        self._worker = worker
        self._reports = reports
        self._pause = pause
        self._configured = asyncio.Event()
        self._ignored: Sequence[str] = ()  # settings of the ConfigMap that have no effect
        self._refused = ""  # why the present ConfigMap cannot be used
        self._election = election
        self._clock = clock
        self._started = clock()
        self._began = False
        self.scope = scope
        self._affected = Affected(self._cache, self._enqueue, self._enqueue_many)
        self.session = WatchSession(watching, self._affected)

    @property
    def leads(self) -> bool:
        return self._election is None or self._election.leading

    async def lead(self, stop: asyncio.Event) -> None:
        """Reconcile, as long as it leads, until ``stop`` is set; raises LeaseLost."""
        if self._election is None:
            await self._work(stop)
            return
        await self._election.win()
        await _until_one_ends(self._work(stop), self._election.hold())
        await self._election.release()

    async def reconcile(self, key: ServiceKey, failures: int) -> float | None:
        """Reconcile one service, later if its namespace is not known yet; raises OperatorError if a retry is needed."""
        if not self.session.is_complete(key.namespace):
            return _COMPLETE_SECONDS
        return await self._reconciler.reconcile(key, failures)

    def changed(self, change: str, body: Manifest) -> None:
        if not self.session.is_gone(body["metadata"].get("namespace", "")):
            self._affected.changed(change, body)

    def stop(self) -> None:
        """Begin no more reconciles; ``lead`` returns when those in progress have ended."""
        self._worker.stop()

    async def use(self, config: OperatorConfig, ignored: Sequence[str]) -> None:
        """Use another configuration from now on."""
        if self._refused or self._configured.is_set():
            log.info("the configuration has changed")
        self._refused, self._ignored = "", ignored
        self._reconciler.use(config)
        self._configured.set()
        if self._began:
            await self._begin()

    async def refuse(self, problem: str) -> None:
        """Report why the present configuration cannot be used; the one before stays in use."""
        if problem == self._refused:
            return
        self._refused = problem
        log.error("%s; %s", problem, self._meanwhile)
        if self.leads:
            await self._report_refused()

    async def report_storage_containers(self) -> None:
        """Report what has no effect in ClusterStorageContainers, also in those that change."""
        while True:
            await asyncio.sleep(POLL)
            if self._began:
                await self._reports.of_storage_containers(self._cache)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            running=self._clock() - self._started,
            discovered=self._discovered,
            refused_config=self._refused,
            configured=self._configured.is_set(),
            leader=self.leads and self._configured.is_set(),
            pause=self._pause.left,
            queue=self._worker.state(),
            watches=tuple(watch.state() for watch in self._needed()),
        )

    def counted(self) -> Snapshot:
        """Return the state with the services by phase, and with their conditions if this replica reconciles them."""
        bodies, state = [*self._cache.of_kind(KIND)], self.snapshot()
        conditions = [item for body in bodies for item in service_conditions(body)] if state.leader else ()
        services = Counter(map(phase_of, bodies))
        return replace(state, contested=self._reconciler.contested(), services=services, conditions=conditions)

    @property
    def _meanwhile(self) -> str:
        stays = "the previous configuration stays in use"
        return f"correct it. Until then {stays if self._configured.is_set() else 'no service is reconciled'}"

    @property
    def _discovered(self) -> bool:
        """Whether the namespaces that there are to watch are known."""
        return not self.scope.depends_on_namespaces or self.session.namespaces_known.is_set()

    def _watches(self) -> list[Watch]:
        return [self.session.watch_of(item) for item in self.scope.collections(self.session.namespaces())]

    def _needed(self) -> list[Watch]:
        """Return the watches without which it is not ready: not those of a namespace that is refused beside others."""
        watches = [watch for watch in self._watches() if not watch.is_missing]
        refused = {watch.collection.namespace for watch in watches if watch.is_refused}
        served = [watch for watch in watches if watch.collection.namespace not in refused]
        return served if any(watch.collection.namespace for watch in served) else watches

    async def _prepared(self) -> None:
        """Wait until there is a configuration, and all objects that exist, and may be listed, are known."""
        await self._configured.wait()
        if self.scope.depends_on_namespaces:
            await self.session.namespaces_known.wait()
        for watch in self._watches():
            await watch.known.wait()

    def _enqueue(self, key: ServiceKey) -> None:
        if self._began:  # until then it stands by, and then it queues all services
            self._worker.add(key)

    def _enqueue_many(self, keys: Iterable[ServiceKey]) -> None:
        if self._began:
            self._worker.add_many(keys)

    async def _work(self, stop: asyncio.Event) -> None:
        if self._refused:  # before it led, it could not report that
            await self._report_refused()
        # The first reconcile sees all that may be listed. An API server that does not respond does not delay a stop.
        await _until_one_ends(self._prepared(), stop.wait())
        if stop.is_set():
            return
        await self._begin()
        await self._worker.run()

    async def _begin(self) -> None:
        self._began = True
        self._worker.add_many(service_keys(self._cache))
        await self._reports.of_config_map(self._ignored)

    async def _report_refused(self) -> None:
        await self._reports.of_refused_config(f"{self._refused}; {self._meanwhile}")


async def _until_one_ends(*running: Coroutine[Any, Any, object]) -> None:
    """Wait for the first to end, cancel the others, and raise its error."""
    tasks = [asyncio.create_task(one) for one in running]
    done: set[asyncio.Task[object]] = set()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
