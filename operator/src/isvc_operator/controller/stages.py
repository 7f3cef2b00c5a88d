"""Lets the status of a starting service follow its stages once a second: most of them last for milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from isvc_operator.api.inference_service import InferenceServiceStatus
from isvc_operator.manifests import ServiceKey
from isvc_operator.observe.conditions import is_another_stage

BETWEEN: Final = 1.0  # seconds, at least, from a stage that is not written to one that is


@dataclass
class StageThrottle:
    """Knows since when the status of a service lacks its stage. ``clock`` counts seconds."""

    clock: Callable[[], float]
    _since: dict[ServiceKey, float] = field(default_factory=dict)

    def wait(self, key: ServiceKey, before: InferenceServiceStatus, after: InferenceServiceStatus) -> float:
        """Return in how many seconds ``after`` may be written; 0 if now.

        After a stage is written, the service has to be forgotten.
        """
        now, same = self.clock(), before.observed_generation == after.observed_generation
        if same and is_another_stage(before.conditions, after.conditions):
            return max(0.0, self._since.setdefault(key, now) + BETWEEN - now)
        self.forget(key)
        return 0.0

    def forget(self, key: ServiceKey) -> None:
        """Forget a service, which is gone, or whose status has its stage."""
        self._since.pop(key, None)
