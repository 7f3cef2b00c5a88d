"""Keeps what was made of services lately, for as long as nothing that it was made from has changed.

While a service starts, each event of its pods reconciles it, and of ten reconciles nine resolve and render the same.
Where thousands are created at once, each has its children long before its status is written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.inference_service import InferenceService, InferenceServiceSpec
from isvc_operator.manifests import ServiceKey

T = TypeVar("T")

KEPT: Final = 128  # services; those that start at a time, and of which memory is not spent on those that run
HELD: Final = 5000  # services; those that were created together, and wait for their status; 14 KiB each when resolved


def wanted(service: InferenceService) -> tuple[ObjectMeta, InferenceServiceSpec]:
    """Return what a service asks for: all but its status, whose writes change its resource version."""
    return service.metadata.model_copy(update={"resource_version": None}), service.spec


class Made(Generic[T]):
    """One value for each service."""

    def __init__(self) -> None:
        self._held: dict[ServiceKey, tuple[tuple[Any, ...], T]] = {}
        self._known: OrderedDict[ServiceKey, tuple[tuple[Any, ...], T]] = OrderedDict()

    def of(self, key: ServiceKey, inputs: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return ``make()``, or what it returned for the service when the inputs were equal."""
        known = self._held.pop(key, None) or self._known.pop(key, None)
        if known is None or known[0] != inputs:
            known = inputs, make()
        self._known[key] = known  # with the inputs that the value refers to, of which there is one copy then
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known[1]

    def hold(self, key: ServiceKey) -> None:
        """Keep what was made of a service until it is asked for again, however many others are before that."""
        if len(self._held) < HELD and (known := self._known.pop(key, None)):
            self._held[key] = known

    def forget(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._held.pop(key, None)
        self._known.pop(key, None)
