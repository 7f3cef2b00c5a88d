"""Why the volumes of a pod cannot be mounted. The pod itself does not say it: the kubelet records it as Events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from isvc_operator.observe.pods import Failure, Pod

Event = Mapping[str, Any]

_FAILED = ("FailedAttachVolume", "FailedMount", "FailedMapVolume")
# What the kubelet does once every volume is there.
_MOUNTED = ("Pulling", "Pulled", "Created", "Started")
_QUOTED = re.compile(r'(secret|configmap) "([^"]+)" not found')


def mount_failure(pod: Pod, events: Iterable[Event]) -> Failure | None:
    """What keeps the pod's volumes from it by the newest of its Events; None where they are there, or just slow."""
    failed: list[str] = []
    for event in sorted(events, key=_time):
        if event.get("reason") in _MOUNTED:
            failed.clear()
        elif event.get("reason") in _FAILED:
            failed.append(" ".join(str(event.get("message", "")).split()))
    # The kubelet's later "timed out waiting for the condition" hides why.
    cause = next((message for message in reversed(failed) if "timed out" not in message), failed[-1] if failed else "")
    return _failure(pod, cause) if cause else None


def _failure(pod: Pod, cause: str) -> Failure | None:
    name = pod["metadata"]["name"]
    if "Multi-Attach" in cause:
        claims = ", ".join(_claims(pod)) or "of the pod"
        cure = (
            f"the claim {claims} is ReadWriteOnce, so one node at a time has it: stop what uses it there, keep both on "
            "one node, or use a ReadWriteMany claim"
        )
        return Failure("ClaimInUse", name, cause, cure)
    if missing := _QUOTED.search(cause):
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing[1]]
        return Failure("VolumeNotMounted", name, cause, f"create the {kind} {missing[2]} in the service's namespace")
    return Failure("VolumeNotMounted", name, cause, "see kubectl describe pod, and the volume's driver on that node")


def _claims(pod: Pod) -> list[str]:
    volumes = pod.get("spec", {}).get("volumes") or ()
    return [item["persistentVolumeClaim"]["claimName"] for item in volumes if "persistentVolumeClaim" in item]


def _time(event: Event) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
