"""What only Events say of a pod: a probe that ended a container, a volume that cannot be mounted. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from isvc_operator.limits import LINE_BYTES
from isvc_operator.manifests import Event, Pod, name_of
from isvc_operator.observe.pods import PodFailure
from isvc_operator.text import one_line

# An Unhealthy Event is of one failed check, a Killing Event of the end that enough of them lead to.
_SAID: Final = {
    "Unhealthy": re.compile(r"(Liveness|Readiness|Startup) probe (?:failed|errored)[^:]*: (?P<detail>.*)", re.DOTALL),
    "Killing": re.compile(r"Container \S+ failed (liveness|startup) probe"),
}
_CONTAINER: Final = re.compile(r"spec\.\w+\{(.+)\}")
_CURES: Final = {
    "liveness": (
        "see in its last log lines why it did not respond, or raise timeoutSeconds or failureThreshold of its "
        "livenessProbe"
    ),
    "startup": (
        "see in its last log lines why it did not start, or raise failureThreshold of its startupProbe if it needs "
        "longer"
    ),
}


@dataclass(frozen=True)
class _Check:
    """A probe that failed, from the first to the last time that its Event reports; ``detail`` is None if it killed."""

    probe: str
    first: datetime
    last: datetime
    detail: str | None


def with_probe(failure: PodFailure, events: Iterable[Event]) -> PodFailure:
    """Return the failure with the probe that ended its container, or fails, as the cause.

    It stays as it is if no Event has one, or no probe has to do with it. ``events`` are those of the failure's pod.
    """
    if not failure.is_of_probe:
        return failure
    if failure.lifetime is None:
        return _with_response(failure, events)
    started, ended = (_time(text) for text in failure.lifetime)
    if started is None or ended is None:
        return failure
    # An Event that is repeated has the time of its last repetition, which may concern the next instance.
    checks = [item for event in events for item in _checks(event, failure.container) if item.first <= ended]
    # The kubelet reports no more of a pod with many Events: what it killed before, it has killed again.
    ends = [item for item in checks if item.detail is None or (item.last > started and item.probe in _CURES)]
    if not ends:
        return failure
    probe = max(ends, key=lambda item: (item.last, item.detail is None)).probe
    details = [item for item in checks if item.probe == probe and item.detail]
    detail = max(details, key=lambda item: item.last).detail if details else ""
    cause = f"it was killed after its {probe} probe failed" + (f": {detail}" if detail else "")
    return replace(failure, cause=cause, fix=_CURES[probe])


def _with_response(failure: PodFailure, events: Iterable[Event]) -> PodFailure:
    """Return the failure of a pod that has lost its readiness, with the probe's last response if the Events have it."""
    checks = [item for event in events for item in _checks(event, failure.container) if item.probe == "readiness"]
    if not checks:
        return failure
    return replace(failure, cause=f"{failure.cause}: {max(checks, key=lambda item: item.last).detail}")


def _checks(event: Event, container: str | None) -> Iterable[_Check]:
    """Yield what an Event says of the container; one that names no container is of any."""
    named = _CONTAINER.fullmatch(str(event.get("involvedObject", {}).get("fieldPath") or ""))
    said = _SAID.get(str(event.get("reason")))
    found = said.match(str(event.get("message") or "")) if said else None
    last = _time(event.get("lastTimestamp") or event.get("eventTime"))
    first = _time(event.get("firstTimestamp")) or last
    if found and first and last and (named is None or named[1] == container):
        detail = found.groupdict().get("detail")
        yield _Check(found[1].lower(), first, last, None if detail is None else one_line(detail, LINE_BYTES))


def _time(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text or ""))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


_NOT_MOUNTED = ("FailedAttachVolume", "FailedMount", "FailedMapVolume")
# Reasons of Events after every volume is mounted.
_MOUNTED = ("Pulling", "Pulled", "Created", "Started")
_QUOTED = re.compile(r'(secret|configmap) "([^"]+)" not found')


def mount_failure(pod: Pod, events: Iterable[Event]) -> PodFailure | None:
    """Return why volumes are not mounted, by the newest Events; None if they are mounted, or just slow."""
    failed: list[str] = []
    for event in sorted(events, key=_last_time):
        if event.get("reason") in _MOUNTED:
            failed.clear()
        elif event.get("reason") in _NOT_MOUNTED:
            failed.append(" ".join(str(event.get("message", "")).split()))
    # The kubelet's later message "timed out waiting for the condition" does not contain the cause.
    cause = next((message for message in reversed(failed) if "timed out" not in message), failed[-1] if failed else "")
    return _failure(pod, cause) if cause else None


def _failure(pod: Pod, cause: str) -> PodFailure | None:
    name = name_of(pod)
    if "Volume is already" in cause:  # "Multi-Attach error for …", and "Waiting for detach for …" by Kubernetes 1.37
        claims = ", ".join(_claims(pod)) or "of the pod"
        fix = (
            f"the claim {claims} is ReadWriteOnce, so only one node at a time can mount it: stop the pod that uses it "
            "there, run both on one node, or use a ReadWriteMany claim"
        )
        return PodFailure("ClaimInUse", name, cause, fix, heals=True)
    if missing := _QUOTED.search(cause):
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing[1]]
        return PodFailure("VolumeNotMounted", name, cause, f"create the {kind} {missing[2]} in the service's namespace")
    fix = "see kubectl describe pod, and the log of the volume's driver on that node"
    return PodFailure("VolumeNotMounted", name, cause, fix, heals=True)


def _claims(pod: Pod) -> list[str]:
    volumes = pod.get("spec", {}).get("volumes") or ()
    return [item["persistentVolumeClaim"]["claimName"] for item in volumes if "persistentVolumeClaim" in item]


def _last_time(event: Event) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
