"""A source of the services that a test puts there, which may change while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from isvc.dashboard.errors import DashboardFailed
from isvc.view.source import ContainerKey, LogOptions, Related, ServiceRequest, ServiceResponse
from isvc_operator.manifests import ServiceKey

Line = tuple[str | None, str]


def no_response(_request: ServiceRequest) -> ServiceResponse:
    raise DashboardFailed("the service does not respond; it is starting")


class FakeSource:
    """Implements ServiceSource. Everything in it may be changed at any time; `tell` says so to who looks."""

    def __init__(self, *services: Related) -> None:
        self.services: dict[ServiceKey, Related] = {}
        self.logs: dict[tuple[str, str], list[Line]] = {}
        self.metrics_of: dict[str, Callable[[], str]] = {}
        self.respond: Callable[[ServiceRequest], ServiceResponse] = no_response
        self.requests: list[ServiceRequest] = []
        self.unseen: list[str] = []
        self.silence = 0.0
        self.broken: Exception | None = None  # what happens to who reads the changes
        self.scraped: asyncio.Queue[str] = asyncio.Queue()
        self._readers: list[asyncio.Queue[frozenset[ServiceKey]]] = []
        self._log_readers: list[tuple[tuple[str, str], asyncio.Queue[Line | None]]] = []
        for related in services:
            self.put(related)

    def put(self, *services: Related) -> None:
        """These services are so now."""
        keys = []
        for related in services:
            metadata = related.service["metadata"]
            keys.append(ServiceKey(metadata["namespace"], metadata["name"]))
            self.services[keys[-1]] = related
        self.tell(*keys)

    def remove(self, key: ServiceKey) -> None:
        """The service has been deleted."""
        del self.services[key]
        self.tell(key)

    def tell(self, *keys: ServiceKey) -> None:
        for reader in self._readers:
            reader.put_nowait(frozenset(keys))

    def write(self, pod: str, container: str, *texts: str, at: str | None = "2026-01-01T12:00:00.000Z") -> None:
        """The container logs these lines."""
        lines = [(at, text) for text in texts]
        self.logs.setdefault((pod, container), []).extend(lines)
        for key, reader in self._log_readers:
            if key == (pod, container):
                for line in lines:
                    reader.put_nowait(line)

    def keys(self) -> Sequence[ServiceKey]:
        return sorted(self.services)

    def related(self, key: ServiceKey) -> Related | None:
        return self.services.get(key)

    def address(self, key: ServiceKey) -> str:
        related = self.services.get(key)
        return str(related.service.get("status", {}).get("url", "")) if related else ""

    async def changes(self) -> AsyncIterator[frozenset[ServiceKey]]:
        reader: asyncio.Queue[frozenset[ServiceKey]] = asyncio.Queue()
        self._readers.append(reader)
        try:
            while True:
                keys = await reader.get()
                if self.broken:
                    raise self.broken
                yield keys
        finally:
            self._readers.remove(reader)

    def hidden(self) -> Sequence[str]:
        return self.unseen

    def silent(self) -> float:
        return self.silence

    async def log(self, key: ContainerKey, options: LogOptions) -> AsyncGenerator[Line, None]:
        name = (key.pod, f"{key.container} before" if options.previous else key.container)
        reader: asyncio.Queue[Line | None] = asyncio.Queue()
        self._log_readers.append((name, reader))
        try:
            for line in self.logs.get(name, [])[-options.lines :]:
                yield line
            while options.follow and (item := await reader.get()):
                yield item
        finally:
            self._log_readers.remove((name, reader))

    @property
    def log_readers(self) -> int:
        """How many read logs now."""
        return len(self._log_readers)

    async def metrics(self, key: ServiceKey, pod: str) -> str:
        self.scraped.put_nowait(pod)
        return self.metrics_of[pod]() if pod in self.metrics_of else ""

    async def send(self, key: ServiceKey, request: ServiceRequest) -> ServiceResponse:
        self.requests.append(request)
        return self.respond(request)
