"""What the watches do not tell about a pod, asked for sparingly.

- why a container has failed: its last log lines, once for each of its instances
- how far the model is on its way: the last line of the storage-initializer's log, every two seconds while it lasts
- why a pod's volumes are not mounted: its Events, once it takes long, and now and then after that
- why a server that runs is not ready: its last log lines, once it takes long, and now and then after that

An answer says in how many seconds it is worth asking again; between two readings it stays the same.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from isvc_operator.api.names import CONTAINER_INITIALIZER, EXPLAINER, PREDICTOR, TRANSFORMER
from isvc_operator.kube import requests
from isvc_operator.kube.cache import ServiceKey
from isvc_operator.kube.client import KubeApi
from isvc_operator.kube.errors import KubeError
from isvc_operator.limits import LOG_BYTES, LOG_READ_BYTES
from isvc_operator.observe.pods import LOADING, PREPARING, STARTING, Failure, Pod, stage_of, waiting_container
from isvc_operator.observe.volumes import mount_failure
from isvc_operator.text import last_of

log = logging.getLogger(__name__)

PROGRESS_EVERY = 2.0  # seconds
# However many services load at a time: then each is looked at less often.
READINGS_PER_SECOND = 20
MOUNT_LATE = 5.0  # seconds
READY_LATE = 10.0  # seconds
EVENTS_EVERY = 30.0  # seconds
LOG_EVERY = 30.0  # seconds
_LOG_LINES = 10
_LINES_OF_WAITING = 5

# For each stage: after how many seconds it is looked at first, and how often then.
_LOOKED_AT = {
    PREPARING: (MOUNT_LATE, EVENTS_EVERY),
    LOADING: (PROGRESS_EVERY, PROGRESS_EVERY),
    STARTING: (READY_LATE, LOG_EVERY),
}


@dataclass(frozen=True)
class Detail:
    """What was found out about a starting pod, and in how many seconds there may be more."""

    progress: str = ""
    log: str = ""
    failure: Failure | None = None
    again: float | None = None


@dataclass(frozen=True)
class _Look:
    """The last reading of a pod in a stage, and when the next one is due."""

    pod: str
    stage: str
    due: float
    found: Detail = Detail()


class ComponentKey(NamedTuple):
    """A component of a service."""

    service: ServiceKey
    kind: str


@dataclass
class PodDetails:
    """Asks the API server about pods of services. ``clock`` counts seconds."""

    api: KubeApi
    clock: Callable[[], float]
    _looks: dict[ComponentKey, _Look] = field(default_factory=dict)
    _logs: dict[ComponentKey, tuple[str, str]] = field(default_factory=dict)

    def forget(self, service: ServiceKey) -> None:
        """The service is gone."""
        for kind in (PREDICTOR, TRANSFORMER, EXPLAINER):
            self._looks.pop(ComponentKey(service, kind), None)
            self._logs.pop(ComponentKey(service, kind), None)

    async def of_starting(self, key: ComponentKey, pod: Pod | None) -> Detail:
        """What holds up ``pod``, or how far it is; nothing where no pod is starting."""
        stage = stage_of(pod).reason if pod else ""
        if pod is None or stage not in _LOOKED_AT:
            self._looks.pop(key, None)
            return Detail()
        look, now = self._looks.get(key), self.clock()
        late, every = _LOOKED_AT[stage]
        if look is None or (look.pod, look.stage) != (pod["metadata"]["uid"], stage):
            look = _Look(pod["metadata"]["uid"], stage, now + self._spaced(stage, late))
        elif now >= look.due:
            look = replace(look, due=now + self._spaced(stage, every), found=await self._found(pod, stage))
        self._looks[key] = look
        return replace(look.found, again=look.due - now)

    async def log_of(self, key: ComponentKey, failure: Failure | None) -> str:
        """Last lines of the failed container; read once for each of its instances."""
        if failure is None or not failure.has_log or failure.container is None:
            self._logs.pop(key, None)
            return ""
        attempt, text = self._logs.get(key, ("", ""))
        if attempt != failure.attempt:
            text = await self._read_log(
                key.service.namespace, failure.pod, failure.container, previous=failure.previous, lines=_LOG_LINES
            )
            self._logs[key] = (failure.attempt, text)
        return text

    def _spaced(self, stage: str, interval: float) -> float:
        """The interval, longer where many pods are in that stage."""
        others = sum(look.stage == stage for look in self._looks.values())
        return max(interval, others / READINGS_PER_SECOND)

    async def _found(self, pod: Pod, stage: str) -> Detail:
        if stage == PREPARING:
            return await self._mounting(pod)
        return await (self._progress(pod) if stage == LOADING else self._waiting(pod))

    async def _progress(self, pod: Pod) -> Detail:
        metadata = pod["metadata"]
        text = await self._read_log(
            metadata["namespace"], metadata["name"], CONTAINER_INITIALIZER, previous=False, lines=1
        )
        return Detail(progress=text)

    async def _waiting(self, pod: Pod) -> Detail:
        metadata, container = pod["metadata"], waiting_container(pod)
        if container is None:
            return Detail()
        return Detail(
            log=await self._read_log(
                metadata["namespace"], metadata["name"], container, previous=False, lines=_LINES_OF_WAITING
            )
        )

    async def _mounting(self, pod: Pod) -> Detail:
        metadata = pod["metadata"]
        try:
            answer = await self.api.send(requests.pod_events(metadata["namespace"], metadata["uid"]))
        except KubeError as error:
            log.info("%s/%s: no Events: %s", metadata["namespace"], metadata["name"], error)
            return Detail()
        return Detail(failure=mount_failure(pod, json.loads(answer)["items"]))

    async def _read_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        try:
            text = await self._log(namespace, pod, container, previous=previous, lines=lines)
            if lines > 1 and len(text.encode()) >= LOG_READ_BYTES:  # the end is missing: a line before it is too long
                text = await self._log(namespace, pod, container, previous=previous, lines=1)
            return last_of(text.strip(), LOG_BYTES)
        except KubeError as error:
            log.info("%s: no log of pod %s, container %s: %s", namespace, pod, container, error)
            return ""

    async def _log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        return await self.api.send(requests.pod_log(namespace, pod, container, previous=previous, lines=lines))
