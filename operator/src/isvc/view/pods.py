"""The pods of a component, each with its stage, its containers and its failure. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from isvc.limits import SEEN_PODS
from isvc.view.containers import containers_of
from isvc.view.fixes import fix_for, fix_for_module
from isvc.view.headlines import headline, missing_module
from isvc.view.progress import progress_in
from isvc.view.source import Related
from isvc.view.times import parse_time
from isvc.view.values import ContainerState, Failure, HealthStatus, PodView, Purpose
from isvc_operator.api.names import CONTAINER_INITIALIZER, READY
from isvc_operator.manifests import Event, Pod, condition_of, name_of
from isvc_operator.observe.component import ComponentObservation
from isvc_operator.observe.pod_events import mount_failure, with_probe
from isvc_operator.observe.pods import (
    LOADING,
    PREPARING,
    PodFailure,
    first_failure,
    furthest,
    is_ready,
    newest_revision,
    stage_of,
    waiting_container,
)


def pods_seen(pods: Iterable[Pod], related: Related, *, rolled_out_at: str | None = None) -> list[PodView]:
    """Return the pods, those of the newest template first, and of these the newest first.

    ``rolled_out_at`` is when all pods of the newest template were ready.
    """
    every = [*pods]
    newest = newest_revision(every)
    current = {id(pod) for pod in newest}
    others = sorted((pod for pod in every if id(pod) not in current), key=_age, reverse=True)
    seen = [_pod(pod, related, current=id(pod) in current) for pod in [*newest, *others][:SEEN_PODS]]
    return [replace(pod, first_ready_at=_first_ready_at(pod, rolled_out_at)) for pod in seen]


def failure_of(pods: Sequence[Pod], related: Related) -> PodFailure | None:
    """Return the failure of the first of these pods that has one, also of its volumes and of its probes."""
    if failure := first_failure(pods):
        failed = next(pod for pod in pods if name_of(pod) == failure.pod)
        return with_probe(failure, _events_of(failed, related.events))
    unmounted = (mount_failure(pod, _events_of(pod, related.events)) for pod in pods if _is_preparing(pod))
    return next((failure for failure in unmounted if failure), None)


def seen_failure(failure: PodFailure, log: str) -> Failure:
    """Return the failure with its log as people see it."""
    of_module = fix_for_module(missing_module(headline(failure.cause)))
    return Failure(
        reason=failure.reason,
        cause=failure.cause,
        fix=failure.fix or of_module or fix_for(failure.reason, failure.exit_code),
        location=failure.location,
        exit_code=failure.exit_code,
        log=log if failure.has_log else "",
    )


def with_logs(observed: ComponentObservation, related: Related) -> ComponentObservation:
    """Return the observation with its failure, also of volumes and probes, the last log lines, and the progress."""
    failure, starting = failure_of(observed.pods, related), furthest(observed.pods)
    waits = related.logs.get((name_of(starting), waiting_container(starting) or ""), "") if starting else ""
    log = _log_of(failure, related) or waits
    return replace(observed, failure=failure, log=log, progress=_progress_line(starting, related))


def _log_of(failure: PodFailure | None, related: Related) -> str:
    """Return the last lines of the container that has failed."""
    return related.logs.get((failure.pod, failure.container or ""), "") if failure else ""


def _progress_line(pod: Pod | None, related: Related) -> str:
    """Return the last line of the storage-initializer that copies."""
    if pod is None or stage_of(pod).reason != LOADING:
        return ""
    lines = related.logs.get((name_of(pod), CONTAINER_INITIALIZER), "").strip().splitlines()
    return lines[-1] if lines else ""


def _pod(pod: Pod, related: Related, *, current: bool) -> PodView:
    metadata, ready = pod["metadata"], is_ready(pod)
    failure = None if ready else failure_of([pod], related)
    stage, containers = None if ready else stage_of(pod), containers_of(pod)
    running = (item for item in containers if item.state is ContainerState.RUNNING and not item.ready)
    return PodView(
        name=metadata["name"],
        health=_health(pod, ready=ready, failed=failure is not None),
        created_at=metadata["creationTimestamp"],
        current=current,
        stage=stage.reason if stage else "",
        stage_since=next((item.started_at for item in running), None),
        message=stage.message if stage else "",
        node=pod.get("spec", {}).get("nodeName", ""),
        ready_at=condition_of(pod, READY).get("lastTransitionTime") if ready else None,
        progress=progress_in(_progress_line(pod, related)),
        failure=seen_failure(failure, _log_of(failure, related)) if failure else None,
        containers=containers,
    )


def _health(pod: Pod, *, ready: bool, failed: bool) -> HealthStatus:
    if pod["metadata"].get("deletionTimestamp"):
        return HealthStatus.TERMINATING
    if pod.get("status", {}).get("phase") == "Succeeded":
        return HealthStatus.STOPPED
    if ready:
        return HealthStatus.READY
    return HealthStatus.FAILED if failed else HealthStatus.STARTING


def _first_ready_at(pod: PodView, rolled_out_at: str | None) -> str | None:
    """Return when a pod was ready first: its own condition has the time of the last change alone."""
    rolled_out = rolled_out_at if pod.current and _is_before(pod.created_at, rolled_out_at) else None
    if any(container.restarts for container in pod.containers if container.purpose is Purpose.SERVER):
        return rolled_out
    return pod.ready_at if _is_before(pod.ready_at, rolled_out) or rolled_out is None else rolled_out


def _is_before(first: str | None, second: str | None) -> bool:
    earlier, later = parse_time(first), parse_time(second)
    return earlier is not None and later is not None and earlier <= later


def _is_preparing(pod: Pod) -> bool:
    return not is_ready(pod) and stage_of(pod).reason == PREPARING


def _events_of(pod: Pod, events: Iterable[Event]) -> Iterable[Event]:
    name, uid = name_of(pod), pod["metadata"]["uid"]
    involved = ((event, event["involvedObject"]) for event in events)
    return (
        event for event, it in involved if it["kind"] == "Pod" and (it["uid"] == uid if uid else it["name"] == name)
    )


def _age(pod: Pod) -> tuple[str, str]:
    return pod["metadata"]["creationTimestamp"], name_of(pod)
