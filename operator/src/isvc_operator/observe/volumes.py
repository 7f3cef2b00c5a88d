"""Why the volumes of a pod cannot be mounted: the kubelet reports it in Events, not in the pod's status."""

from __future__ import annotations

import re
from collections.abc import Iterable

from isvc_operator.manifests import Event, Pod, name_of
from isvc_operator.observe.pods import PodFailure

_FAILED = ("FailedAttachVolume", "FailedMount", "FailedMapVolume")
# Reasons of Events after every volume is mounted.
_MOUNTED = ("Pulling", "Pulled", "Created", "Started")
_QUOTED = re.compile(r'(secret|configmap) "([^"]+)" not found')


def mount_failure(pod: Pod, events: Iterable[Event]) -> PodFailure | None:
    """Return why volumes are not mounted, by the newest Events; None if they are mounted, or just slow."""
    failed: list[str] = []
    for event in sorted(events, key=_time):
        if event.get("reason") in _MOUNTED:
            failed.clear()
        elif event.get("reason") in _FAILED:
            failed.append(" ".join(str(event.get("message", "")).split()))
    # The kubelet's later message "timed out waiting for the condition" does not contain the cause.
    cause = next((message for message in reversed(failed) if "timed out" not in message), failed[-1] if failed else "")
    return _failure(pod, cause) if cause else None


def _failure(pod: Pod, cause: str) -> PodFailure | None:
    name = name_of(pod)
    if "Multi-Attach" in cause:
        claims = ", ".join(_claims(pod)) or "of the pod"
        fix = (
            f"the claim {claims} is ReadWriteOnce, so only one node at a time can mount it: stop the pod that uses it "
            "there, run both on one node, or use a ReadWriteMany claim"
        )
        return PodFailure("ClaimInUse", name, cause, fix)
    if missing := _QUOTED.search(cause):
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing[1]]
        return PodFailure("VolumeNotMounted", name, cause, f"create the {kind} {missing[2]} in the service's namespace")
    return PodFailure(
        "VolumeNotMounted", name, cause, "see kubectl describe pod, and the log of the volume's driver on that node"
    )


def _claims(pod: Pod) -> list[str]:
    volumes = pod.get("spec", {}).get("volumes") or ()
    return [item["persistentVolumeClaim"]["claimName"] for item in volumes if "persistentVolumeClaim" in item]


def _time(event: Event) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
