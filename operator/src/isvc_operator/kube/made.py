"""Keeps what was made of services lately, for as long as nothing that it was made from has changed.

While a service starts, each event of its pods reconciles it, and of ten reconciles nine resolve and render the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.inference_service import InferenceService, InferenceServiceSpec
from isvc_operator.kube.cache import ServiceKey

T = TypeVar("T")

KEPT: Final = 128  # services; those that start at a time, and of which memory is not spent on those that run


def wanted(service: InferenceService) -> tuple[ObjectMeta, InferenceServiceSpec]:
    """Return what a service asks for: all but its status, whose writes change its resource version."""
    return service.metadata.model_copy(update={"resource_version": None}), service.spec


class Made(Generic[T]):
    """One value for each service."""

    def __init__(self) -> None:
        self._known: OrderedDict[ServiceKey, tuple[tuple[Any, ...], T]] = OrderedDict()

    def of(self, key: ServiceKey, inputs: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return ``make()``, or what it returned for the service when the inputs were equal."""
        known = self._known.pop(key, None)
        value = known[1] if known is not None and known[0] == inputs else make()
        self._known[key] = inputs, value
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return value

    def forget(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._known.pop(key, None)
