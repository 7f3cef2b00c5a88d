"""The workers of one handler: how many there are, when one is replaced, and how their errors are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from data_plane.errors import UpstreamTimeout
from mar_runtime.worker.spec import HandlerSpec
from torchserve_compat.server.errors import cause_of


@dataclass(frozen=True)
class PoolPolicy:
    """How many workers there are, and when one is replaced; 0 disables a limit.

    `more_workers` start after the required ones, as far as memory suffices.
    """

    workers: int = 1
    more_workers: int = 0
    response_timeout_s: float = 120.0
    startup_timeout_s: float = 120.0
    max_requests: int = 0
    max_memory_mib: int = 0


class WorkerTimeout(UpstreamTimeout):
    """A worker took too long and is replaced."""

    component = "worker"

    def __init__(self, model: str, timeout_s: float) -> None:
        super().__init__(
            f"Model {model} did not answer within {timeout_s:g} s (responseTimeout); its worker is replaced."
        )


def describe_failure(spec: HandlerSpec, archive: str, failure: Mapping[str, str | None]) -> str:
    """Return one line: the model, the exception, the place in the user's code, and the fix."""
    return f"Model {spec.model} ({archive}) could not be loaded: {cause_of(failure, installs=spec.installs)}"
