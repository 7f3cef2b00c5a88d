"""The services of a run, as a cluster would show them: what the dashboard and ``isvc run`` read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from html import escape
from pathlib import Path
from urllib.parse import quote

import aiohttp
from yarl import URL

from isvc.limits import SCRAPED_BYTES, SENT_RESPONSE_BYTES
from isvc.run.caller import Endpoint
from isvc.run.check import Refusals
from isvc.run.children import Rendered
from isvc.run.clock import now
from isvc.run.container import LOOPBACK
from isvc.run.errors import RunFailed, UnusableInput, unusable_because
from isvc.run.kubelet import LocalPod
from isvc.run.models import handlers_in
from isvc.run.processes import Group, together
from isvc.run.routes import IngressRoute, path_of
from isvc.run.service import LocalService, Node, Settings
from isvc.source.proxy_targets import metrics_target
from isvc.view.changed import Changed, ChangeReader
from isvc.view.source import ContainerKey, LogOptions, Related, ServiceRequest, ServiceResponse, ServiceSource
from isvc_operator.api.names import FIELDS_IGNORED, VOLUME_MODELS
from isvc_operator.manifests import ServiceKey
from isvc_operator.observe.component import LAST_LOG_LINES
from isvc_operator.responses import read_up_to
from isvc_operator.text import one_line, visible

_AT_MOST_EVERY = 0.2  # seconds between two statuses of a service
_LOG_EVERY = 2.0  # seconds; the status of a service that is not ready quotes its logs
_END = re.compile(r"pod \S+, container \S+ ended with exit code")
_NOTHING_REFUSED = Refusals()
_SCRAPE = aiohttp.ClientTimeout(total=5)


class LocalCluster(ServiceSource):
    """Runs services; a ServiceSource. ``routes`` are those of its ingress, which change in place.

    ``failure`` is why the first container that has failed is not running; each is printed while ``says_failures``.
    ``dashboard`` is the dashboard's address. ``refused`` is what was left out of the files.
    """

    def __init__(self, group: Group, session: aiohttp.ClientSession, settings: Settings) -> None:
        self.routes: list[IngressRoute] = []
        self.failure: RunFailed | None = None
        self.says_failures = True
        self.dashboard = ""
        self.refused = _NOTHING_REFUSED
        self._node = Node(group, session, settings, changed=self._mark, failed=self._failed)
        self.services: dict[ServiceKey, LocalService] = {}
        self._checked: dict[ServiceKey, LocalService] = {}
        self._changed = Changed()  # whose status is to be derived
        self._derived = Changed()
        self._endings: set[asyncio.Task[None]] = set()

    async def check(self, services: Collection[Rendered], refused: Refusals = _NOTHING_REFUSED) -> list[Rendered]:
        """Return the services that can run here, beside what is ``refused`` already. Nothing is started or changed.

        Raises UnusableInput if there is none, or if services run and more is refused than when they were checked.
        """
        before, self._checked = self._checked, {}
        unused = [service for key, service in before.items() if service is not self.services.get(key)]
        await together(*(service.stop() for service in unused))
        self._node.several_namespaces = len({rendered.key.namespace for rendered in services}) > 1
        found = []
        for rendered in services:
            service = self.services.get(rendered.key) or LocalService(self._node, rendered.key)
            self._checked[rendered.key] = service
            try:
                await service.check(rendered)
            except UnusableInput as error:
                refused = refused.also([rendered.key.name], [str(error)])
            else:
                found.append(rendered)
        new = [line for line in refused.lines if line not in self.refused.lines] if self.services else ()
        if new or not found:
            raise unusable_because(new or refused.lines)
        self.refused = refused
        return found

    def apply(self, services: Collection[Rendered]) -> None:
        """Run these services, which were checked, and no others."""
        for key in sorted(self.services.keys() - {rendered.key for rendered in services}):
            task = asyncio.create_task(self.services.pop(key).remove())
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)
            self._node.group.output.note(f"{key.name} is not served any more; its pods end with their last request")
            self._mark(key)
        for rendered in services:
            self.services[rendered.key] = self._checked[rendered.key]
            self.services[rendered.key].apply(rendered)

    def restart(self, key: ServiceKey, deployments: Iterable[str], file: str) -> None:
        """Replace the pods of these Deployments of a service, because a file has changed."""
        self.services[key].restart(deployments, file)

    async def keep_statuses(self) -> None:
        """Derive the status of each service that has changed, and of those that are not ready; until cancelled."""
        with self._changed.read() as reader:
            while True:
                changed = await reader.wait(_LOG_EVERY)
                changed |= {key for key, service in self.services.items() if not service.is_ready}
                self.update_statuses(changed)
                self._derived.note(changed)
                await asyncio.sleep(_AT_MOST_EVERY)

    def update_statuses(self, keys: Iterable[ServiceKey] | None = None) -> None:
        """Derive the statuses of these services, or of all; their warnings are printed."""
        for key in self.services if keys is None else self.services.keys() & set(keys):
            for event in self.services[key].update_status():
                message = event["message"].partition(LAST_LOG_LINES)[0]
                # It was printed when it happened, or when the files were read.
                is_told = _END.match(message) or event["reason"] == FIELDS_IGNORED
                if event["type"] == "Warning" and not is_told:
                    self._node.group.output.say(visible(f"{key.name}: {event['reason']}: {message}"))

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Return when ``wanted`` holds; it is asked after each change."""
        changes = self.changes()
        while not wanted():
            await anext(changes)

    def predicted(self, route: IngressRoute, seconds: float) -> None:
        """Note that a service has answered a prediction after so many seconds."""
        if route.key in self.services:
            self.services[route.key].predicted(seconds)

    def endpoint(self, key: ServiceKey) -> Endpoint:
        """Return where a service is reached; its first host is that of the default template, unless another has it."""
        service = self._service(key)
        return Endpoint(
            key.name, service.routes[0].host, self._node.settings.http_port, service.grpc_port(), path=path_of(key)
        )

    @property
    def folder(self) -> Path:
        """The private folder of the run."""
        return self._node.group.folder

    def front(self) -> str:
        """Return a page with links to the services and to the dashboard, which the token of the run opens."""
        links = [
            f'<li><a href="{quote(path_of(key))}/">{escape(key.name)}</a>: {service.health}'
            for key, service in self.services.items()
        ]
        return (
            "<!doctype html><meta charset=utf-8><title>isvc run</title><style>:root{color-scheme:light dark}</style>"
            f'<h1>Services</h1><ul>{"".join(links)}</ul><p><a href="{escape(self.dashboard)}">Dashboard</a>'
        )

    def handlers(self, key: ServiceKey) -> dict[str, str]:
        """Return the handler that reads the requests of each model of a service that has one, as its pods have it."""
        folders = [plan.folder / VOLUME_MODELS for plan in self._service(key).plans().values()]
        return dict(found for folder in folders for found in handlers_in(folder, key.name))

    def keep(self, content: bytes) -> Path:
        """Write a file that is there as long as the run is; return its path."""
        folder = self._node.folder()
        folder.mkdir()
        file = folder / "sample.json"
        file.write_bytes(content)
        return file

    def rendered(self, key: ServiceKey) -> Rendered:
        """Return what a service was last changed to."""
        return self._service(key).rendered

    # --- as a ServiceSource -----------------------------------------------------------------------------

    def keys(self) -> Sequence[ServiceKey]:
        """Return the services, in the order of their names."""
        return sorted(self.services)

    def related(self, key: ServiceKey) -> Related | None:
        """Return a service with its objects; None if it does not exist."""
        service = self.services.get(key)
        return service.related() if service else None

    def address(self, key: ServiceKey) -> str:
        """Return the URL on this machine: nothing resolves the host names of a cluster here."""
        return f"http://{LOOPBACK}:{self._node.settings.http_port}{path_of(key)}"

    def changes(self) -> AsyncIterator[frozenset[ServiceKey]]:
        """Yield the services that have changed since the last item."""
        return self._derived.changes()

    def read_changes(self) -> AbstractContextManager[ChangeReader]:
        """Collect the services that change from now on for one reader."""
        return self._derived.read()

    def hidden(self) -> Sequence[str]:
        """Return nothing: who runs services sees all of them."""
        return ()

    def silent(self) -> float:
        """Return 0: the services are here."""
        return 0.0

    async def log(self, key: ContainerKey, options: LogOptions) -> AsyncGenerator[tuple[str | None, str], None]:
        """Yield the lines of a container's log with their times."""
        earliest = "" if options.since_seconds is None else now(-options.since_seconds)
        pod = self._pod(key.service, key.pod)
        if key.container not in pod.containers():
            raise UnusableInput(f"pod {key.pod} has no container {key.container}; it has {', '.join(pod.containers())}")
        async for time, text in pod.log(key.container, previous=options.previous).read(
            options.lines, follow=options.follow
        ):
            if time >= earliest:
                yield time, text

    async def metrics(self, key: ServiceKey, pod: str) -> str:
        """Return the metrics of a pod's server; empty if it has none."""
        found = self._pod(key, pod)
        target = metrics_target(found.manifest, self.services[key].related().children)
        port = found.plan.ports.get(target.port) if target else None
        if port is None:
            return ""
        url = f"http://{LOOPBACK}:{port}/metrics"
        try:
            async with self._node.session.get(url, timeout=_SCRAPE, allow_redirects=False) as response:
                content = await _read(response, SCRAPED_BYTES)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RunFailed(f"the metrics of pod {pod} cannot be read: {one_line(str(error))}") from error
        return content.decode(errors="replace") if response.status == 200 else ""

    async def send(self, key: ServiceKey, request: ServiceRequest) -> ServiceResponse:
        """Send a request to a service through the ingress."""
        endpoint, clock = self.endpoint(key), asyncio.get_running_loop().time
        began = clock()
        try:
            async with self._node.session.request(
                request.method,
                URL(endpoint.url + request.path, encoded=True),
                headers={**request.headers, "Host": endpoint.host},
                data=request.body or None,
                allow_redirects=False,
            ) as response:
                body = await _read(response, SENT_RESPONSE_BYTES)
        except (aiohttp.ClientError, TimeoutError) as error:
            why = one_line(str(error)) or f"no response after {clock() - began:.0f} s"
            raise RunFailed(f"{key.name} does not respond: {why}") from error
        return ServiceResponse(
            status=response.status, headers=dict(response.headers), body=body, seconds=clock() - began
        )

    async def stop(self) -> None:
        """End all services at once."""
        for task in self._endings:
            task.cancel()
        started = {*self.services.values(), *self._checked.values()}
        await together(*self._endings, *(service.stop() for service in started))

    def _service(self, key: ServiceKey) -> LocalService:
        if key not in self.services:
            raise UnusableInput(f"there is no InferenceService {key.name} in namespace {key.namespace}")
        return self.services[key]

    def _pod(self, key: ServiceKey, name: str) -> LocalPod:
        service = self.services.get(key)
        pod = service.pod(name) if service else None
        if pod is None:
            raise UnusableInput(f"InferenceService {key.name} has no pod {name}")
        return pod

    def _mark(self, key: ServiceKey) -> None:
        """A service has changed: its routes, its pods, its Events."""
        self.routes[:] = [route for service in self.services.values() for route in service.routes]
        self._changed.note([key])

    def _failed(self, failure: RunFailed) -> None:
        if self.says_failures:
            self._node.group.output.say(failure.brief)
        self.failure = self.failure or failure


@asynccontextmanager
async def local_cluster(group: Group, settings: Settings) -> AsyncIterator[LocalCluster]:
    """Yield a cluster without services; on exit those that it has got are stopped."""
    # A new connection for each request, as a kubelet makes: a kept one holds a server that has one thread.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        cluster = LocalCluster(group, session, settings)
        deriving = asyncio.create_task(cluster.keep_statuses())
        try:
            yield cluster
        finally:
            deriving.cancel()
            await cluster.stop()


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    content = await read_up_to(response, limit)
    if len(content) > limit:
        raise RunFailed(f"the response has more than {limit} bytes")
    return content
