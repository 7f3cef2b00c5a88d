"""The history of a service on one time line: what it was asked, its conditions, pods, containers and Events. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from isvc.limits import SEEN_MOMENTS
from isvc.view.source import Related
from isvc.view.times import parse_time
from isvc.view.values import HistorySource, Moment
from isvc_operator.api.inference_service import KIND
from isvc_operator.api.names import (
    DRIFT_CORRECTED,
    FIELD_MANAGER,
    PROGRESSING,
    READY,
    ROLLOUT_UPDATED,
    STALLED,
    STOPPED,
)
from isvc_operator.manifests import Event, Manifest, Pod, name_of

# In this order where several occur in the same second, which is as exact as most of these times are.
_ORDER: Final = {
    HistorySource.SERVICE: 0,
    (HistorySource.POD, "Created"): 1,
    (HistorySource.POD, "Scheduled"): 2,
    (HistorySource.POD, "Prepared"): 3,
    HistorySource.EVENT: 4,
    HistorySource.CONTAINER: 5,
    (HistorySource.EVENT, "BackOff"): 6,
    HistorySource.POD: 7,
    HistorySource.CONDITION: 8,
    (HistorySource.SERVICE, READY): 9,
}
_BEFORE_PODS: Final = (ROLLOUT_UPDATED, DRIFT_CORRECTED)  # other Events on a service are about what has become of it
# What the pod's own status says as well.
_TOLD_BY_STATUS: Final = ("Scheduled", "Created", "Started")
_OF_POD: Final = {
    "PodScheduled": "Scheduled",
    "PodReadyToStartContainers": "Prepared",
    "Initialized": "Initialized",
    "Ready": "Ready",
}


def history_of(related: Related) -> list[Moment]:
    """Return the last moments, the oldest first; those without a valid time are left out."""
    # The time of a condition is that of its status; an Event has that of its reason, which may have changed since.
    told = {event["reason"] for event in related.events if event["involvedObject"]["kind"] == KIND}
    moments = [
        *_of_service(related.service),
        *(moment for moment in _of_conditions(related.service) if moment.reason not in told),
        *(moment for pod in related.pods for moment in _of_pod(pod)),
        *(moment for event in sorted(related.events, key=_version) for moment in _of_event(event, related)),
    ]
    timed = [(at, _order(moment), index) for index, moment in enumerate(moments) if (at := parse_time(moment.at))]
    return [moments[index] for _, _, index in sorted(timed)[-SEEN_MOMENTS:]]


def _order(moment: Moment) -> int:
    source, reason = moment.source, moment.reason
    if source is HistorySource.EVENT and moment.about.startswith(f"{KIND}/"):
        source = HistorySource.SERVICE if reason in _BEFORE_PODS else HistorySource.CONDITION
    return _ORDER.get((source, reason), _ORDER[source])


def _version(event: Event) -> tuple[int, str]:
    """Return what orders the Events that a cluster has written; of others, all have the same."""
    version: str = event["metadata"].get("resourceVersion", "")
    return len(version), version


def _of_service(service: Manifest) -> Iterator[Moment]:
    metadata, about = service["metadata"], f"{KIND}/{name_of(service)}"
    created = metadata["creationTimestamp"]
    yield Moment(at=created, source=HistorySource.SERVICE, about=about, reason="Created")
    for entry in metadata.get("managedFields", ()):
        if entry["manager"] != FIELD_MANAGER and not entry.get("subresource") and entry["time"] != created:
            message = f"by {entry['manager']}" if entry["manager"] else ""
            yield Moment(at=entry["time"], source=HistorySource.SERVICE, about=about, reason="Changed", message=message)
    if at := metadata.get("deletionTimestamp"):
        yield Moment(at=at, source=HistorySource.SERVICE, about=about, reason="Deleted")


def _of_conditions(service: Manifest) -> Iterator[Moment]:
    """Leave out ``Progressing``, which repeats the others, and ``Ready`` unless it is True."""
    for item in service.get("status", {}).get("conditions", ()):
        type_, status, at = item["type"], item["status"], item.get("lastTransitionTime", "")
        if type_ == READY and status == "True":
            yield Moment(at=at, source=HistorySource.SERVICE, about=f"{KIND}/{name_of(service)}", reason=READY)
        elif type_ not in (READY, PROGRESSING, STALLED) and not (type_ == STOPPED and status == "False"):
            yield Moment(
                at=at,
                source=HistorySource.CONDITION,
                about=type_,
                reason=item.get("reason") or status,
                message=item.get("message", ""),
                warning=_is_bad(status, item.get("severity")),
            )


def _is_bad(status: str, severity: str | None) -> bool:
    """Whether a condition tells of something wrong: a part of Ready that is False, or a warning that is True."""
    return severity == "Warning" if status == "True" else status == "False" and severity is None


def _of_pod(pod: Pod) -> Iterator[Moment]:
    about = f"Pod/{name_of(pod)}"
    yield Moment(at=pod["metadata"]["creationTimestamp"], source=HistorySource.POD, about=about, reason="Created")
    if at := pod["metadata"].get("deletionTimestamp"):
        yield Moment(at=at, source=HistorySource.POD, about=about, reason="Deleted")
    status = pod.get("status", {})
    for item in status.get("conditions", ()):
        if item["type"] in _OF_POD and item["status"] == "True":
            reason, at = _OF_POD[item["type"]], item.get("lastTransitionTime", "")
            yield Moment(at=at, source=HistorySource.POD, about=about, reason=reason)
    for item in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        for state in (item.get("lastState", {}), item.get("state", {})):
            yield from _of_container(f"{about} {item['name']}", state)


def _of_container(about: str, state: Mapping[str, Any]) -> Iterator[Moment]:
    ended = state.get("terminated", {})
    if at := (state.get("running") or ended).get("startedAt"):
        yield Moment(at=at, source=HistorySource.CONTAINER, about=about, reason="Started")
    if at := ended.get("finishedAt"):
        code = ended.get("exitCode", 0)
        message = (
            ended.get("message", "") if code == 0 else f"exit code {code}: {ended.get('message', '')}".rstrip(": ")
        )
        reason = ended.get("reason") or "Ended"
        yield Moment(
            at=at,
            source=HistorySource.CONTAINER,
            about=about,
            reason=reason,
            message=message.strip(),
            warning=code != 0,
        )


def _of_event(event: Event, related: Related) -> Iterator[Moment]:
    involved, reason = event["involvedObject"], event["reason"]
    is_told = involved["kind"] == "Pod" and reason in _TOLD_BY_STATUS
    if is_told and any(name_of(pod) == involved["name"] for pod in related.pods):
        return
    yield Moment(
        at=_last(event),
        source=HistorySource.EVENT,
        about=f"{involved['kind']}/{involved['name']}",
        reason=reason,
        message=event["message"],
        warning=event.get("type") == "Warning",
        count=max(1, event.get("series", {}).get("count", event.get("count", 1))),
    )


def _last(event: Event) -> str:
    names = ("lastTimestamp", "eventTime", "firstTimestamp")
    times = (event.get("series", {}).get("lastObservedTime"), *(event.get(name) for name in names))
    return next((str(at) for at in times if at), str(event["metadata"]["creationTimestamp"]))
