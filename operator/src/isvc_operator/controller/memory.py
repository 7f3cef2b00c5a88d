"""What the operator remembers of each service from one reconcile to the next. After a restart it starts anew."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from isvc_operator.controller.pod_details import PodMemory
from isvc_operator.controller.restores import LastChange, is_contested
from isvc_operator.kube.informer.cache import ObjectKey
from isvc_operator.manifests import Manifest, ServiceKey, name_of

T = TypeVar("T")

KEPT: Final = 128  # services with results: those that start at a time; memory is not spent on those that run
# Seconds. The response of a request to a namespace may come when there is another one of that name, with its services.
TERMINATING_SECONDS: Final = 300.0


@dataclass(slots=True)
class ServiceMemory:
    """What is remembered of one service; times are of the operator's clock, which counts seconds.

    ``results`` has the last result of each step, with the inputs that it was made from; none if the service
    ``is_large``. ``terminating``: the uid with which the service was found in a namespace that is being deleted, and
    until when nothing is written for it.
    ``drained_since``: since when its removed components get no traffic, ``stage_since``: since when its status lacks
    its stage. ``labelled``: it has no more children of KServe's without its label. ``sent`` has the last change sent to
    each child, ``pods`` what was requested about the pods of each component.
    """

    results: dict[str, tuple[tuple[Any, ...], Any]] = field(default_factory=dict)
    is_large: bool = False
    terminating: tuple[str, float] = ("", 0.0)
    drained_since: float | None = None
    stage_since: float | None = None
    labelled: bool = False
    sent: dict[ObjectKey, LastChange] = field(default_factory=dict)
    pods: dict[str, PodMemory] = field(default_factory=dict)

    def memo(self, step: str, inputs: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return ``make()``, or what it returned for the step when the inputs were equal.

        While a service starts, each event of its pods reconciles it, and of ten reconciles nine resolve and render the
        same. Without this, they would take 6 ms more of a service's 16.
        """
        if self.is_large:
            self.results.clear()
            return make()
        known = self.results.get(step)
        if known is None or known[0] != inputs:
            known = self.results[step] = inputs, make()
        result: T = known[1]
        return result


class RateLimit:
    """Lets one service after the other replace its pods for something that they share, so many a minute.

    ``clock`` counts seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._queue: dict[ServiceKey, None] = {}  # those that wait, the next one first
        self._begun: set[ServiceKey] = set()  # those whose pods may be replaced, and are not yet
        self._last = float("-inf")  # when the last one began

    def wait(self, key: ServiceKey, per_minute: int) -> float:
        """Return in how many seconds it is the service's turn, which it keeps until it is forgotten; 0 if it is now."""
        if key in self._begun:
            return 0.0
        self._queue.setdefault(key, None)
        now, others = self._clock(), list(self._queue).index(key)
        if (left := self._last + (others + 1) * 60 / per_minute - now) > 0:
            return left
        del self._queue[key]
        self._begun.add(key)
        self._last = now
        return 0.0

    def forget(self, key: ServiceKey) -> None:
        """Forget a service, which has replaced its pods or need not do so."""
        self._queue.pop(key, None)
        self._begun.discard(key)


class Memories:
    """The memory of each service by its key, and the turns of services that share a change."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_key: dict[ServiceKey, ServiceMemory] = {}
        self._recent: OrderedDict[ServiceKey, ServiceMemory] = OrderedDict()  # those with results
        self.turns = RateLimit(clock)

    def of(self, key: ServiceKey) -> ServiceMemory:
        """Return the memory of a service. Only that of the last services has results."""
        memory = self._by_key.setdefault(key, ServiceMemory())
        self._recent.pop(key, None)
        self._recent[key] = memory
        if len(self._recent) > KEPT:
            _, oldest = self._recent.popitem(last=False)
            oldest.results.clear()
        return memory

    def forget(self, key: ServiceKey) -> None:
        self._by_key.pop(key, None)
        self._recent.pop(key, None)
        self.turns.forget(key)

    def terminate(self, namespace: str, services: Iterable[Manifest]) -> None:
        """Note that nothing can be created any more for the services of a namespace, which is being deleted."""
        until = self._clock() + TERMINATING_SECONDS
        for body in services:
            if body["metadata"]["namespace"] == namespace:
                key = ServiceKey(namespace, name_of(body))
                self._by_key.setdefault(key, ServiceMemory()).terminating = body["metadata"]["uid"], until

    def terminating(self, key: ServiceKey, uid: str) -> float:
        """Return in how many seconds to try again for a service of such a namespace; 0 for others.

        Such a namespace never comes back, but another one may have its name, with other services.
        """
        known, until = self._by_key[key].terminating if key in self._by_key else ("", 0.0)
        return max(0.0, until - self._clock()) if known == uid else 0.0

    def contested(self) -> int:
        """Return how many children others change or delete again and again, at this moment."""
        now = self._clock()
        return sum(is_contested(last, now) for memory in self._by_key.values() for last in memory.sent.values())
