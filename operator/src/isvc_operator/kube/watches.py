"""Watches the kinds and namespaces of a scope, also those that appear later.

A kind is watched when its CRD is installed, a namespace when it matches a pattern. For that, the metadata of CRDs and
of namespaces is watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from isvc_operator.api.kinds import Role, with_role
from isvc_operator.kube.scope import Scope
from isvc_operator.kube.watch import LATEST, Collection, Watch, WatchHandler, Watching
from isvc_operator.manifests import Manifest, name_of
from isvc_operator.telemetry.snapshot import WatchState

_CRDS, _NAMESPACES = with_role(Role.DISCOVERY)


class _Names:
    """Takes changes of objects of which only the names matter, and reports those that exist after each change."""

    def __init__(self, report: Callable[[Iterable[str]], None]) -> None:
        self._report = report
        self._names: set[str] = set()

    def listed(self, collection: Collection, objects: Sequence[Manifest], version: int) -> None:
        del collection, version
        self._names = set(map(name_of, objects))
        self._report(self._names)

    def changed(self, change: str, body: Manifest) -> None:
        (self._names.discard if change == "DELETED" else self._names.add)(name_of(body))
        self._report(self._names)


class _Crds:
    """Takes changes of CRDs, and reports the name of each that was installed or has changed."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report

    def listed(self, collection: Collection, objects: Sequence[Manifest], version: int) -> None:
        del collection, version
        for body in objects:
            self._report(name_of(body))

    def changed(self, change: str, body: Manifest) -> None:
        if change != "DELETED":
            self._report(name_of(body))


class Watches:
    """Runs a watch for each kind in each namespace of the scope; ``handler`` takes what they report."""

    def __init__(self, watching: Watching, scope: Scope, handler: WatchHandler) -> None:
        self._watching = watching
        self._scope = scope
        self._handler = handler
        self._running: dict[Collection, tuple[Watch, asyncio.Task[None]]] = {}
        self._tasks = asyncio.TaskGroup()
        self._discovered = asyncio.Event()

    @property
    def discovered(self) -> bool:
        """Whether the namespaces that there are to watch are known."""
        return self._discovered.is_set()

    async def run(self) -> None:
        """Watch until cancelled; raises the error that ends a watch."""
        try:
            async with self._tasks:
                if self._scope.notices_crds:
                    self._start(Collection(_CRDS), _Crds(self._installed))
                if self._scope.has_patterns:
                    self._start(Collection(_NAMESPACES), _Names(self._watch_namespaces))
                else:
                    self._watch_namespaces(self._scope.namespaces or ("",))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def filled(self) -> None:
        """Wait until all objects that exist are known."""
        await self._discovered.wait()
        for watch, _ in [*self._running.values()]:
            await watch.known.wait()

    def states(self) -> tuple[WatchState, ...]:
        """Return the states of the watches of kinds that are in the cluster now."""
        return self._watching.heard.states(
            {
                collection.path: collection.kind.plural
                for collection, (watch, _) in self._running.items()
                if not watch.is_missing
            }
        )

    def _watch_namespaces(self, names: Iterable[str]) -> None:
        """Watch these namespaces, which are all that exist, and no others."""
        matching = names if not self._scope.has_patterns else [name for name in names if self._scope.matches(name)]
        wanted = {
            Collection(kind, namespace if kind.namespaced else "")
            for kind in self._scope.kinds
            for namespace in matching
        } | {Collection(kind) for kind in self._scope.kinds if not kind.namespaced}
        for collection in [*self._running]:
            if collection not in wanted and collection.kind.role is not Role.DISCOVERY:
                self._stop(collection)
        for collection in sorted(wanted - self._running.keys(), key=lambda item: item.path):
            self._start(collection, self._handler)
        self._discovered.set()

    def _start(self, collection: Collection, handler: WatchHandler) -> None:
        watch = Watch(self._watching, collection, handler)
        self._running[collection] = watch, self._tasks.create_task(watch.run())

    def _stop(self, collection: Collection) -> None:
        watch, task = self._running.pop(collection)
        task.cancel()
        watch.known.set()  # nobody has to wait for it any more
        self._watching.heard.forget(collection.path)
        self._handler.listed(collection, (), LATEST)

    def _installed(self, crd: str) -> None:
        for collection, (watch, _) in self._running.items():
            if f"{collection.kind.plural}.{collection.kind.group}" == crd:
                watch.installed()
