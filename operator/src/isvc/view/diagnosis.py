"""Why a service does not serve: one cause first, its evidence and its fix, then what else is worth knowing. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from isvc.view.fixes import SEE_MESSAGE, fix_for
from isvc.view.headlines import brief
from isvc.view.values import (
    OLDER_SERVE,
    ComponentView,
    ConditionView,
    Failure,
    HealthStatus,
    HistorySource,
    Moment,
    PodView,
    ServiceView,
)
from isvc_operator.api.names import DRIFT_CORRECTED, ROLLOUT_UPDATED
from isvc_operator.observe.pods import LOADING, STARTING
from isvc_operator.plan.replaced_pods import NEW_PODS

NOT_PROCESSED: Final = "NotProcessed"
SCALED_TO_ZERO: Final = "ScaledToZero"
REQUESTS_FAIL: Final = "RequestsFail"
_OTHER_MODEL: Final = "set the transformer's --model_name to a model of its predictor"
_EVENTS: Final = 3  # of the pod that has failed
_WARNING: Final = "Warning"
_VARYING: Final = re.compile(r"(?<![\w.-])(?:0x[0-9a-f]+|\d[\d.:TZ-]*)")  # times, addresses, counts
_STARTING_FIXES: Final = {
    LOADING: "wait for the download; isvc status -w shows its progress",
    STARTING: "wait; if it stays like that, the last log lines say what the server does or waits for",
}


@dataclass(frozen=True, kw_only=True)
class Finding(Failure):
    """A failure, or a warning of a service that serves; ``evidence`` are lines: Events, restarts."""

    evidence: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What is found of a service: the cause of its failure first. ``healthy``: it serves, and nothing has failed.

    ``rollout``: the last Event that says why its pods were replaced.
    """

    namespace: str
    name: str
    health: HealthStatus
    healthy: bool
    findings: Sequence[Finding] = ()
    rollout: Moment | None = None


@dataclass(frozen=True)
class Answered:
    """Requests of clients that the ready pods of a service have counted since they started, by status.

    ``without_model``: those of a transformer whose predictor does not have the model that it asks for.
    """

    by_status: Mapping[int, float] = field(default_factory=dict)
    without_model: float = 0

    @property
    def failed(self) -> Mapping[int, int]:
        """Those that have failed, and not by a mistake of the client."""
        statuses = {status: count for status, count in sorted(self.by_status.items()) if status >= 500}
        return {status: round(count) for status, count in {404: self.without_model, **statuses}.items() if count}


def diagnose(service: ServiceView, answered: Answered | None = None, last_failed: str = "") -> Diagnosis:
    """Return the findings on a service; ``last_failed`` is the last line about a failed request in its logs."""
    causes = [*_causes(service)]
    others = [Finding(**vars(failure)) for failure in _failures(service) if not _is_among(failure, causes)]
    findings = [
        *causes,
        *_distinct(others),
        *_warnings(service, (*causes, *others)),
        *_failed_requests(service, answered or Answered(), last_failed),
    ]
    return Diagnosis(
        namespace=service.namespace,
        name=service.name,
        health=service.health,
        healthy=service.health is HealthStatus.READY and not causes and not others,
        findings=[_completed(finding, service) for finding in findings],
        rollout=next(filter(_replaced_pods, reversed(service.history)), None),
    )


def _replaced_pods(moment: Moment) -> bool:
    """Whether it is an Event of the operator about new pods."""
    return moment.reason in (ROLLOUT_UPDATED, DRIFT_CORRECTED) and NEW_PODS in moment.message


def _causes(service: ServiceView) -> Iterator[Finding]:
    if service.health is HealthStatus.TERMINATING:
        yield Finding(reason="Deleted", cause="the service is being deleted", fix="wait until it is gone")
    elif _is_behind(service):
        yield Finding(reason=NOT_PROCESSED, cause=_behind(service), fix=fix_for(NOT_PROCESSED))
    elif service.health is HealthStatus.STOPPED:
        fix = f"kubectl annotate isvc {service.name} serving.kserve.io/stop-"
        yield Finding(reason="Stopped", cause="the service is stopped by its annotation", fix=fix)
    elif service.failure is not None:
        yield Finding(**vars(service.failure))
    elif service.health is HealthStatus.STARTING:
        fix = _STARTING_FIXES.get(service.stage, "wait; isvc status -w shows what comes next")
        yield Finding(reason=service.stage, cause=service.message or "the service is starting", fix=fix)


def _is_behind(service: ServiceView) -> bool:
    """Whether the operator has not written the status of the service as it is now."""
    return service.generation > service.observed_generation or not service.conditions


def _behind(service: ServiceView) -> str:
    if not service.conditions:
        return "no operator has written a status yet"
    return (
        f"the operator has not processed the last change yet: the service has generation {service.generation}, its "
        f"status is of generation {service.observed_generation}"
    )


def _failures(service: ServiceView) -> Iterator[Failure]:
    for component in service.components:
        if component.failure:
            yield component.failure
        yield from (pod.failure for pod in component.pods if pod.failure and pod.current)


def _warnings(service: ServiceView, found: Sequence[Failure]) -> Iterator[Finding]:
    """Yield what a service that is ready lacks: pods, and conditions on which ``Ready`` does not depend."""
    if service.health is HealthStatus.READY:
        yield from (_without_pods(item) for item in service.components if item.wanted == 0)
    for item in service.conditions:
        finding = _of_condition(item)
        if item.severity == _WARNING and item.status == "True" and not _is_among(finding, found):
            yield finding
    if service.health is HealthStatus.READY:
        yield from (
            _of_condition(item) for item in service.conditions if item.type.endswith("Ready") and _is_false(item)
        )


def _without_pods(component: ComponentView) -> Finding:
    cause = f"the {component.kind} {component.name} is scaled to zero: it has no pod that serves requests"
    return Finding(reason=SCALED_TO_ZERO, cause=cause, fix=f"{fix_for(SCALED_TO_ZERO)} {component.name} --replicas=1")


def _failed_requests(service: ServiceView, answered: Answered, last: str) -> Iterator[Finding]:
    if failed := answered.failed:
        statuses = ", ".join(f"{count} with HTTP {status}" for status, count in failed.items())
        total = round(sum(answered.by_status.values()))
        cause = f"{sum(failed.values())} of {total} requests have failed since its pods started: {statuses}"
        fix = f"see what the responses say, and the errors in the log: isvc logs {service.name}"
        if answered.without_model:
            cause += "; the transformer asks for a model that its predictor does not have"
            fix = f"{_OTHER_MODEL}; {fix}"
        yield Finding(reason=REQUESTS_FAIL, cause=cause, fix=fix, log=last)


def _is_false(item: ConditionView) -> bool:
    return item.status == "False" and not item.severity


def _of_condition(item: ConditionView) -> Finding:
    return Finding(reason=item.reason, cause=item.message, fix=fix_for(item.reason))


def gist(failure: Failure) -> tuple[str, str]:
    """Return the reason and the cause without what differs from pod to pod, and from one restart to the next."""
    return failure.reason, _VARYING.sub("", brief(failure.cause))


def log_tail(failure: Failure) -> str:
    """Return the last lines of a failure's log without those that its cause ends with, and a traceback's markers."""
    lines = failure.log.rstrip().splitlines()
    while lines and lines[-1].strip(" ^~") in failure.cause:
        lines.pop()
    return "\n".join(lines)


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Return one finding of each cause: the pods of a component most often fail for the same."""
    return [*{gist(item): item for item in reversed(findings)}.values()][::-1]


def _is_among(failure: Failure, others: Sequence[Failure]) -> bool:
    return gist(failure) in map(gist, others)


def _completed(finding: Finding, service: ServiceView) -> Finding:
    components = [item for item in service.components if any(_concerns(finding, pod) for pod in item.pods)]
    pods = [pod for item in components for pod in item.pods if _concerns(finding, pod)]
    failed = [item for item in service.components if item.failure and _is_among(item.failure, [finding])]
    older = [OLDER_SERVE] if any(item.fails_beside_older for item in (*components, *failed)) else []
    restarts = [
        f"container {item.name} was restarted {item.restarts} times"
        for pod in pods
        for item in pod.containers
        if item.restarts > 1
    ]
    about = {f"Pod/{pod.name}" for pod in pods}
    warned: dict[tuple[str, str], Moment] = {}  # the last of each, with the count of all
    for item in service.history:
        if item.source is HistorySource.EVENT and item.warning and item.about in about:
            key = item.reason, _VARYING.sub("", item.message)
            before = warned.pop(key, None)
            warned[key] = replace(item, count=item.count + before.count) if before else item
    events = list(warned.values())[-_EVENTS:]
    return replace(finding, fix=finding.fix or SEE_MESSAGE, evidence=[*older, *restarts, *map(_event, events)])


def _concerns(finding: Finding, pod: PodView) -> bool:
    return f"{finding.location},".startswith(f"pod {pod.name},")


def _event(moment: Moment) -> str:
    times = f" ({moment.count} times)" if moment.count > 1 else ""
    return f"{moment.at} {moment.reason}: {moment.message}{times}"
