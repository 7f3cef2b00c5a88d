"""The ServiceSource of ``isvc run``: what the runs of this user on this machine tell over their sockets."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from isvc.limits import RUN_LINE_BYTES
from isvc.source.errors import NotReachable, NotSeen
from isvc.view.changed import Changed
from isvc.view.source import ContainerKey, LogOptions, Related, ServiceRequest, ServiceResponse, ServiceSource
from isvc_operator.manifests import Manifest, ServiceKey
from isvc_operator.text import one_line

DEFAULT_NAMESPACE: Final = "default"  # of objects that name none
SOCKET: Final = "run.sock"  # in the private folder of a run
FOLDERS: Final = "isvc-*"  # of runs, in the folder for temporary files
_ANY: Final = "http://run"  # a URL's host is only a name here
_SHORT: Final = "/tmp"  # noqa: S108 - where a run has its folder if the usual one is too long


@dataclass(frozen=True)
class LocalRun:
    """An ``isvc run``: its socket, and the addresses of its ingress and of its dashboard."""

    socket: Path
    url: str
    dashboard: str

    async def samples(self, key: ServiceKey) -> Mapping[str, tuple[str, str]]:
        """Return a request for each model of a service of which one is known: the protocol and the body."""
        try:
            async with _got(self.socket, "/samples", {"namespace": key.namespace, "name": key.name}) as response:
                found: Mapping[str, tuple[str, str]] = await response.json()
                return found
        except aiohttp.ClientError:  # it has ended, or is of a version that knows none
            return {}

    def url_of(self, key: ServiceKey) -> str:
        """Return where a service answers."""
        return f"{self.url}/{key.namespace}/{key.name}"


async def local_runs() -> list[LocalRun]:
    """Return the runs of this user that answer."""
    found = await asyncio.gather(*map(_run_at, await asyncio.to_thread(_sockets)))
    return sorted((run for run in found if run), key=lambda run: run.url)


@asynccontextmanager
async def run_source(runs: Sequence[LocalRun], namespace: str | None) -> AsyncIterator[RunSource]:
    """Yield a source of the services of the runs, of one namespace or of all."""
    source = RunSource(namespace)
    following = [asyncio.create_task(source.follow(run)) for run in runs]
    try:
        await source.known(len(runs))
        yield source
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


class RunSource(ServiceSource):
    """Knows the services of some runs; raises NotSeen when none is left."""

    def __init__(self, namespace: str | None) -> None:
        self._namespace = namespace
        self._found: dict[ServiceKey, dict[str, tuple[LocalRun, Related]]] = {}  # by the URLs of the runs
        self._changed = Changed()
        self._told = asyncio.Semaphore(0)  # the runs that have told their services

    async def follow(self, run: LocalRun) -> None:
        """Follow a run until it ends; its services are gone then."""
        try:
            async with _got(run.socket, "/services") as response:
                async for line in response.content:
                    document: dict[str, Any] | None = json.loads(line)
                    if document is None:  # all were told
                        self._told.release()
                    else:
                        self._take(run, document)
        except (aiohttp.ClientError, aiohttp.http.HttpProcessingError):  # it has ended, or says too much
            pass
        finally:
            self._told.release()
            for key in [key for key, found in self._found.items() if run.url in found]:
                self._forget(run, key)

    async def known(self, runs: int) -> None:
        """Wait until so many runs have told which services they have."""
        for _ in range(runs):
            await self._told.acquire()

    def runs_of(self, key: ServiceKey) -> Sequence[tuple[LocalRun, Related]]:
        """Return the runs that have a service of this name, in the order of their URLs, and what each tells of it."""
        found = self._found.get(key, {})
        return [found[url] for url in sorted(found)]

    def run_of(self, key: ServiceKey) -> LocalRun | None:
        """Return the run that has a service, the first of several."""
        return next((run for run, _ in self.runs_of(key)), None)

    def names(self, run: LocalRun) -> Sequence[str]:
        """Return the names of a run's services."""
        return [key.name for key in self.keys() if run.url in self._found[key]]

    def require_one(self, key: ServiceKey) -> None:
        """Raise NotSeen if several runs have a service of this name."""
        urls = [run.url_of(key) for run, _ in self.runs_of(key)]
        if len(urls) > 1:
            raise NotSeen(
                f"{len(urls)} runs serve {one_line(key.name)}: at {' and '.join(urls)}; stop all but one; "
                "isvc predict and isvc bench take one by --url, and each run prints its logs and failures itself"
            )

    def keys(self) -> Sequence[ServiceKey]:
        """Return the services, in the order of their names."""
        return sorted(self._found)

    def related(self, key: ServiceKey) -> Related | None:
        """Return a service with its objects, that of the first of several runs; None if it does not exist."""
        return next((related for _, related in self.runs_of(key)), None)

    def address(self, key: ServiceKey) -> str:
        """Return the URL at the run's ingress; empty if the run has ended."""
        run = self.run_of(key)
        return run.url_of(key) if run else ""

    def changes(self) -> AsyncIterator[frozenset[ServiceKey]]:
        """Yield the services that have changed since the last item."""
        return self._changed.changes()

    def hidden(self) -> Sequence[str]:
        """Return nothing: who runs services sees all of them."""
        return ()

    def silent(self) -> float:
        """Return 0: a run that has ended has no services."""
        return 0.0

    async def log(self, key: ContainerKey, options: LogOptions) -> AsyncGenerator[tuple[str | None, str], None]:
        """Yield the lines of a container's log with their times."""
        run = self.run_of(key.service)
        if run is None:
            raise NotSeen(f"the isvc run that had InferenceService {key.service.name} has ended")
        asked = {
            "namespace": key.service.namespace, "name": key.service.name, "pod": key.pod, "container": key.container,
            "lines": str(options.lines), "follow": str(int(options.follow)), "previous": str(int(options.previous)),
            "since": "" if options.since_seconds is None else str(options.since_seconds),
        }  # fmt: skip
        async with _got(run.socket, "/log", asked) as response:
            if response.status != 200:
                raise NotSeen(await response.text())
            async for line in response.content:
                time, text = json.loads(line)
                yield time, text

    async def metrics(self, key: ServiceKey, pod: str) -> str:
        """Return the metrics of a pod's server; empty if it has none, or its run has ended."""
        run = self.run_of(key)
        if run is None:
            return ""
        try:
            asked = {"namespace": key.namespace, "name": key.name, "pod": pod}
            async with _got(run.socket, "/metrics", asked) as response:
                return await response.text() if response.ok else ""
        except aiohttp.ClientError:  # it has ended
            return ""

    async def send(self, key: ServiceKey, request: ServiceRequest) -> ServiceResponse:  # noqa: ARG002
        """Raise NotReachable: requests are sent to the run's ingress."""
        raise NotReachable("requests are sent to the ingress of isvc run")

    def _take(self, run: LocalRun, document: Mapping[str, Any]) -> None:
        key = ServiceKey(document["namespace"], document["name"])
        if self._namespace not in (None, key.namespace):
            return
        if document["related"] is None:
            self._forget(run, key)
        else:
            self._found.setdefault(key, {})[run.url] = run, related_of(document["related"])
            self._changed.note([key])

    def _forget(self, run: LocalRun, key: ServiceKey) -> None:
        found = self._found.get(key, {})
        found.pop(run.url, None)
        if not found:
            self._found.pop(key, None)
        self._changed.note([key])


def document_of(key: ServiceKey, related: Related | None) -> Manifest:
    """Return what a run tells of a service as JSON; None stands for one that it does not have any more."""
    told = related and {
        "service": related.service, "children": related.children, "pods": related.pods, "events": related.events,
        "runtimes": related.runtimes, "logs": [[*where, text] for where, text in related.logs.items()],
    }  # fmt: skip
    return {"namespace": key.namespace, "name": key.name, "related": told}


def related_of(told: Mapping[str, Any]) -> Related:
    """Return what ``document_of`` has told."""
    return Related(**{**told, "logs": {(pod, container): text for pod, container, text in told["logs"]}})


def _sockets() -> list[Path]:
    folders = dict.fromkeys((tempfile.gettempdir(), _SHORT))
    return [file for folder in folders for file in Path(folder).glob(f"{FOLDERS}/{SOCKET}") if _is_ours(file)]


def _is_ours(file: Path) -> bool:
    """Whether a socket is in a folder of this user alone: anybody can make one in the folder for temporary files."""
    try:
        folder = file.parent.lstat()
    except OSError:  # it has just ended
        return False
    return folder.st_uid == os.geteuid() and not folder.st_mode & 0o077


async def _run_at(socket: Path) -> LocalRun | None:
    try:
        async with _got(socket, "/run") as response:
            return LocalRun(socket, **await response.json())
    except (aiohttp.ClientError, OSError):  # it has ended, or is just about to begin
        return None


@asynccontextmanager
async def _got(
    socket: Path, path: str, asked: Mapping[str, str] | None = None
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Yield the response of a run, which may go on for as long as the run."""
    connector, timeout = aiohttp.UnixConnector(str(socket)), aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=RUN_LINE_BYTES // 2) as session,
        session.get(f"{_ANY}{path}", params=asked, allow_redirects=False) as response,
    ):
        yield response
