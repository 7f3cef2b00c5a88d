"""What every step of a change-over needs: the cluster, the clock, and somebody to tell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from isvc.migrate.errors import MigrationFailed
from isvc.migrate.objects import LiveObjects
from isvc_operator.kube.errors import KubeError

T = TypeVar("T")

_POLL = 0.5  # seconds


class Step(StrEnum):
    """What a change-over has done."""

    KSERVE_PAUSED = "KServePaused"
    KSERVE_RESUMED = "KServeResumed"
    KSERVE_STOPPED = "KServeStopped"
    KSERVE_STARTED = "KServeStarted"
    OPERATOR_STARTED = "OperatorStarted"
    OPERATOR_STOPPED = "OperatorStopped"
    SERVICE_CHANGED_OVER = "ServiceChangedOver"
    SERVICE_GIVEN_BACK = "ServiceGivenBack"
    SERVICES_LEFT = "ServicesLeft"


@dataclass(frozen=True)
class StepTaken:
    """A step that has been taken; ``services`` are those it is of, as ``namespace/name``."""

    step: Step
    message: str
    services: Sequence[str] = ()


@dataclass(frozen=True)
class Session:
    """``clock`` counts seconds, ``now`` returns RFC 3339 times; no step waits longer than ``patience`` seconds."""

    objects: LiveObjects
    report: Callable[[StepTaken], None]
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], str]
    patience: float

    async def until(self, what: str, probe: Callable[[], Awaitable[T | None]]) -> T:
        """Return the first value of ``probe`` that is true; raises MigrationFailed when patience ends."""
        end = self.clock() + self.patience
        while not (found := await probe()):
            if self.clock() >= end:
                raise MigrationFailed(f"after {self.patience:.0f} s: {what}")
            await self.sleep(_POLL)
        return found

    async def insist(self, what: str, send: Callable[[], Awaitable[object]]) -> None:
        """Send a request again while webhooks do not answer yet; raises KubeError or MigrationFailed."""
        reasons: list[str] = []

        async def sent() -> bool:
            try:
                await send()
            except KubeError as error:
                if not error.is_transient:
                    raise
                reasons.append(str(error))
                return False
            return True

        try:
            await self.until(what, sent)
        except MigrationFailed as error:
            raise MigrationFailed(f"{error}: {reasons[-1]}") from error
