"""The workers of one handler, in processes or in threads: their interface, policy and error messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from data_plane.errors import UpstreamTimeout
from torchserve_compat.server.errors import cure_of
from torchserve_compat.server.transport import Transport

# The cause in torch.load's long message.
_WEIGHTS_ONLY = re.compile(r"Weights only load failed.*WeightsUnpickler error:\s*(.+?)(?:\. |\n|$)", re.DOTALL)


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


class WorkerPool(Transport, Protocol):
    """The workers of one handler."""

    def watch(self, on_change: Callable[[int, str], None]) -> None:
        """Call `on_change` now and at each change, with the number of workers and how the last one ended."""
        ...

    async def start(self) -> None:
        """Return when the required workers are ready; raises ModelFailed if the handler cannot be loaded."""
        ...

    async def close(self) -> None:
        """End all workers; return when they are gone."""
        ...


class WorkerTimeout(UpstreamTimeout):
    """A worker took too long and is replaced."""

    component = "worker"

    def __init__(self, model: str, timeout_s: float, what_next: str) -> None:
        super().__init__(f"Model {model} did not answer within {timeout_s:g} s (responseTimeout); {what_next}.")


def describe_failure(model: str, archive: str, failure: dict[str, str | None]) -> str:
    """Return one line: the model, the exception, the place in the user's code, and the fix."""
    message = failure["message"] or ""
    if why := _WEIGHTS_ONLY.search(message):
        message = why[1]
        cure = (
            "torch.load loads only tensors from a file that is not trusted. If you trust this file, set "
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 in the container's env; else save a state_dict, or TorchScript."
        )
    else:
        cure = cure_of(failure["missing_module"])
    return (
        f"Model {model} ({archive}) could not be loaded: {failure['type']}: {message} (at {failure['where']}). {cure}"
    )


def describe_late_start(model: str, archive: str, timeout_s: float) -> str:
    """Return one line: what took too long, and the setting for the limit."""
    return (
        f"Model {model} ({archive}) was not loaded within {timeout_s:g} s "
        "(startupTimeout); raise it, or load less in `initialize`."
    )
