"""Details of pods that no watch reports, requested rarely.

- why a container has failed: its last log lines, once for each of its instances
- which probe has ended a container, if one may have: the pod's Events, once for each of its instances
- the progress of the download: the last line of the storage-initializer's log, every two seconds
- why a pod's volumes are not mounted: its Events, after a delay and then regularly
- why a running server is not ready: its last log lines, after a delay and then regularly

Each result includes the number of seconds until the next request; until then it stays the same.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakSet

from isvc_operator.api.names import CONTAINER_INITIALIZER
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.requests import decode
from isvc_operator.limits import LOG_BYTES, LOG_READ_BYTES
from isvc_operator.manifests import Event, Pod, name_of
from isvc_operator.observe.pod_events import mount_failure, with_probe
from isvc_operator.observe.pods import LOADING, PREPARING, STARTING, PodFailure, stage_of, waiting_container
from isvc_operator.text import block, last_of

log = logging.getLogger(__name__)

PROGRESS_EVERY = 2.0  # seconds
# For all services together: the more pods are starting, the less often each one is read.
READINGS_PER_SECOND = 20
MOUNT_LATE = 5.0  # seconds
READY_LATE = 10.0  # seconds
EVENTS_EVERY = 30.0  # seconds
LOG_EVERY = 30.0  # seconds
# What the kubelet sends in place of the log of a container that is gone; its number differs at each restart.
_NO_LOG = re.compile(r"unable to retrieve container logs for \w+://\w+")
_LOG_LINES = 10
_WAITING_LINES = 5

# For each stage: the delay of the first request, and the interval after that, in seconds.
_SCHEDULE = {
    PREPARING: (MOUNT_LATE, EVENTS_EVERY),
    LOADING: (PROGRESS_EVERY, PROGRESS_EVERY),
    STARTING: (READY_LATE, LOG_EVERY),
}


@dataclass(frozen=True)
class PodDetail:
    """What is known about a starting pod, and in how many seconds there may be more."""

    progress: str = ""
    log: str = ""
    failure: PodFailure | None = None
    requeue_after: float | None = None


@dataclass(frozen=True, eq=False)
class PodReading:
    """The last details of a pod in a stage, and when the next request is due."""

    pod: str
    stage: str
    due: float
    detail: PodDetail = PodDetail()


@dataclass(slots=True)
class PodMemory:
    """What was requested about the pods of a component of a service.

    ``reading`` is of the pod that starts. ``log`` has an instance of a failed container, and its last lines. ``end``:
    how a container has ended, by a probe perhaps.
    """

    reading: PodReading | None = None
    log: tuple[str, str] = ("", "")
    end: PodFailure | None = None


@dataclass
class PodDetails:
    """Requests details of pods from the API server. ``clock`` counts seconds."""

    api: KubeApi
    clock: Callable[[], float]
    _in_stage: defaultdict[str, WeakSet[PodReading]] = field(default_factory=lambda: defaultdict(WeakSet))

    async def of_starting(self, memory: PodMemory, pod: Pod | None) -> PodDetail:
        """Return why ``pod`` is not ready, or its progress; nothing if no pod is starting."""
        stage = stage_of(pod).reason if pod else ""
        if pod is None or stage not in _SCHEDULE:
            memory.reading = None
            return PodDetail()
        reading, now = memory.reading, self.clock()
        late, every = _SCHEDULE[stage]
        if reading is None or (reading.pod, reading.stage) != (pod["metadata"]["uid"], stage):
            memory.reading = reading = PodReading(pod["metadata"]["uid"], stage, now + self._spaced(stage, late))
        elif now >= reading.due:
            due, detail = now + self._spaced(stage, every), await self._detail(pod, stage)
            memory.reading = reading = replace(reading, due=due, detail=detail)
        self._in_stage[stage].add(reading)
        return replace(reading.detail, requeue_after=reading.due - now)

    async def log_of(self, memory: PodMemory, namespace: str, failure: PodFailure | None) -> str:
        """Return the last lines of the failed container; read once for each of its instances."""
        if failure is None or not failure.has_log or failure.container is None:
            memory.log = "", ""
            return ""
        if memory.log[0] != failure.attempt:
            text = await end_of_failed(
                self.api, namespace, failure.pod, failure.container, previous=failure.previous, lines=_LOG_LINES
            )
            memory.log = failure.attempt, text
        return memory.log[1]

    async def explained(self, memory: PodMemory, failure: PodFailure | None, pods: Sequence[Pod]) -> PodFailure | None:
        """Return the failure with the probe that ended the container, or that it does not answer any more.

        Events are read once for each instance.
        """
        if failure is None or not failure.is_of_probe:
            memory.end = None
            return failure
        known = memory.end
        if known is None or (known.pod, known.attempt) != (failure.pod, failure.attempt):
            pod = next(pod for pod in pods if name_of(pod) == failure.pod)
            known = memory.end = with_probe(failure, await self._events(pod))
        return replace(failure, cause=known.cause, fix=known.fix)

    def _spaced(self, stage: str, interval: float) -> float:
        """Return the interval, which is longer if many pods are in that stage."""
        return max(interval, len(self._in_stage[stage]) / READINGS_PER_SECOND)

    async def _detail(self, pod: Pod, stage: str) -> PodDetail:
        if stage == PREPARING:
            return PodDetail(failure=mount_failure(pod, await self._events(pod)))
        container = CONTAINER_INITIALIZER if stage == LOADING else waiting_container(pod)
        if container is None:
            return PodDetail()
        namespace, lines = pod["metadata"]["namespace"], 1 if stage == LOADING else _WAITING_LINES
        text = await end_of_log(self.api, namespace, name_of(pod), container, previous=False, lines=lines)
        return PodDetail(progress=text.strip()) if stage == LOADING else PodDetail(log=text)

    async def _events(self, pod: Pod) -> Sequence[Event]:
        """Return the pod's Events; none if they cannot be read."""
        metadata = pod["metadata"]
        try:
            response = await self.api.send(requests.pod_events(metadata["namespace"], metadata["uid"]))
        except KubeError as error:
            log.info("%s/%s: its Events cannot be read: %s", metadata["namespace"], metadata["name"], error)
            return []
        events: Sequence[Event] = decode(response)["items"]
        return events


async def end_of_log(api: KubeApi, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
    """Return the last lines of the log; empty, with a line in our own log, if it cannot be read."""

    async def read(lines: int) -> str:
        return await api.send(requests.pod_log(namespace, pod, container, previous=previous, lines=lines))

    try:
        text = await read(lines)
        if lines > 1 and len(text.encode()) >= LOG_READ_BYTES:  # cut at the end: an earlier line is too long
            text = await read(1)
        text = block(text)
        return "" if _NO_LOG.fullmatch(text) else last_of(text, LOG_BYTES)
    except KubeError as error:
        log.info("%s: the log of pod %s, container %s cannot be read: %s", namespace, pod, container, error)
        return ""


async def end_of_failed(api: KubeApi, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
    """Return the last lines of an instance of a container that has ended; empty if they cannot be read.

    Its pod may have changed since it was read. If the container was restarted, its log is the previous one by now; if
    it has ended once more, the kubelet has deleted the log of the instance before, and has that of the last one.
    """
    for instance in (previous, not previous):
        if text := await end_of_log(api, namespace, pod, container, previous=instance, lines=lines):
            return text
    return ""
