"""Holds back a status that only names another stage of a service's start: most stages last for milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from isvc_operator.api.inference_service import InferenceServiceStatus
from isvc_operator.manifests import ServiceKey
from isvc_operator.observe.conditions import is_another_stage

HELD_BACK: Final = 1.0  # seconds


@dataclass
class Stages:
    """Knows since when the status of a service lacks its stage. ``clock`` counts seconds."""

    clock: Callable[[], float]
    _since: dict[ServiceKey, float] = field(default_factory=dict)

    def left(self, key: ServiceKey, before: InferenceServiceStatus, after: InferenceServiceStatus) -> float:
        """Return for how many seconds ``after`` is held back; 0 if it is to be written now, or is what is written."""
        now, same = self.clock(), before.observed_generation == after.observed_generation
        if same and is_another_stage(before.conditions, after.conditions):
            left = self._since.setdefault(key, now) + HELD_BACK - now
            if left > 0:
                return left
        self.forget(key)
        return 0.0

    def forget(self, key: ServiceKey) -> None:
        """Forget a service."""
        self._since.pop(key, None)
