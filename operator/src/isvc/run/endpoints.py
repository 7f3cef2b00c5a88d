"""The ready pods behind a port of a Service, and how many requests each of them has: what kube-proxy knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from isvc.run.log import Wakeup


@dataclass
class Endpoints:
    """The local ports of the ready pods, and the requests that each of them has.

    ``_runs`` tells at each request whether a pod's processes still run: another process may have taken the port.
    """

    ports: tuple[int, ...] = ()
    _runs: Mapping[int, Callable[[], bool]] = field(default_factory=dict)
    _requests: Counter[int] = field(default_factory=Counter)
    _freed: Wakeup = field(default_factory=Wakeup)

    def use(self, ports: Mapping[int, Callable[[], bool]]) -> None:
        """Send what comes from now on to these ports, each while its pod's processes run."""
        self.ports, self._runs = tuple(ports), ports

    @contextmanager
    def one(self, besides: Collection[int] = ()) -> Iterator[int | None]:
        """Yield the port for a request: of those with the fewest the next in turn; None if no other pod is ready."""
        ports = [port for port in self.ports if port not in besides and self._runs.get(port, _always)()]
        if not ports:
            yield None
            return
        port = min(ports, key=self._requests.__getitem__)
        self.ports = (*(item for item in self.ports if item != port), port)
        self._requests[port] += 1
        try:
            yield port
        finally:
            self._requests[port] -= 1
            self._freed.wake()

    @property
    def are_busy(self) -> bool:
        """Whether a pod has a request."""
        return self._requests.total() > 0

    async def until_free(self, port: int) -> None:
        """Return when a port has no request."""
        while self._requests[port]:
            await self._freed.wait()


def _always() -> bool:
    return True
