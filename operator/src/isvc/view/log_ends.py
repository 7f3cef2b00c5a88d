"""Which ends of logs tell why a pod is not ready. Pure.

- of a container that has failed, once for each of its instances
- of a storage-initializer that copies, the line with its progress
- of a server that runs and is not ready yet
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from isvc_operator.api.names import CONTAINER_INITIALIZER, LABEL_APP
from isvc_operator.manifests import Pod, labels_of, name_of
from isvc_operator.observe.pods import (
    LOADING,
    STARTING,
    first_failure,
    is_ready,
    newest_revision,
    stage_of,
    waiting_container,
)

_LINES: Final = 10
_WAITING_LINES: Final = 5
_PROGRESS_EVERY: Final = 2.0  # seconds
_WAITING_EVERY: Final = 5.0  # seconds
_PODS: Final = 5  # of a component, of which logs are read


@dataclass(frozen=True, kw_only=True)
class LogEnd:
    """An end of a log to read: again after ``every`` seconds, or once for each ``attempt`` of the container."""

    pod: str
    container: str
    lines: int
    previous: bool = False
    every: float | None = None
    attempt: str = ""


def wanted(pods: Iterable[Pod]) -> Iterator[LogEnd]:
    """Yield what to read of the pods of a service."""
    by_component: dict[str, list[Pod]] = {}
    for pod in pods:
        by_component.setdefault(labels_of(pod).get(LABEL_APP, ""), []).append(pod)
    for group in by_component.values():
        unready = [pod for pod in newest_revision(group) if not is_ready(pod)]
        for pod in unready[:_PODS]:
            yield from _of_pod(pod)


def _of_pod(pod: Pod) -> Iterator[LogEnd]:
    name, stage, failure = name_of(pod), stage_of(pod).reason, first_failure([pod])
    if failure and failure.has_log and failure.container:
        yield LogEnd(
            pod=name, container=failure.container, lines=_LINES, previous=failure.previous, attempt=failure.attempt
        )
    elif stage == LOADING:
        yield LogEnd(pod=name, container=CONTAINER_INITIALIZER, lines=1, every=_PROGRESS_EVERY)
    elif stage == STARTING and (container := waiting_container(pod)):
        yield LogEnd(pod=name, container=container, lines=_WAITING_LINES, every=_WAITING_EVERY)


def last_state(line: str) -> str:
    """Return what a terminal shows of a line in the end: of a progress bar, its last state."""
    return line.rstrip().rpartition("\r")[2]
