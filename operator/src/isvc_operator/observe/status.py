"""Derives the status of a service from what was resolved and observed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from isvc_operator.api.inference_service import (
    FAILURE_REASONS,
    Addressable,
    ComponentStatus,
    Condition,
    FailureInfo,
    InferenceService,
    InferenceServiceStatus,
    ModelCopies,
    ModelStates,
    ModelStatus,
)
from isvc_operator.api.names import (
    ANNOTATION_UPGRADE_POLICY,
    AUTOSCALER_PROBLEM,
    CANARY_NOT_SUPPORTED,
    CHANGE_HELD_BACK,
    FIELDS_IGNORED,
    HOST_TAKEN,
    INGRESS_READY,
    OPERATOR_UPGRADED,
    PODS_OUTDATED,
    PREDICTOR,
    PROGRESSING,
    ROLLOUT_QUEUED,
    STALLED,
    STOPPED,
    STORAGE_INCOMPLETE,
)
from isvc_operator.config import UpgradePolicy
from isvc_operator.errors import InvalidCredentials, Problem
from isvc_operator.limits import MESSAGE_BYTES, NAMED
from isvc_operator.observe import conditions as conds
from isvc_operator.observe.autoscalers import autoscaler_problem, inactive
from isvc_operator.observe.component import CONDITIONS, ROLLED_OUT, ComponentObservation, component_ready, explain
from isvc_operator.observe.conditions import Contested, certificate_problem, spec_not_applied
from isvc_operator.observe.pods import LOADING, MINIMUM_UNAVAILABLE, OUTAGES, is_ready, storage_warning
from isvc_operator.observe.routes import RouteProblem
from isvc_operator.resolve.hosts import Hosts
from isvc_operator.resolve.service import Resolved
from isvc_operator.text import one_line, shortened, visible

# Reasons that no pod has, and that may pass without a change from outside: pods are replaced, a gateway reports.
_HEALING = (MINIMUM_UNAVAILABLE, "IngressNotCreated", "RouteNotCreated", "ParentStatusNotAvailable")
ROLL_OUT = "To roll a change out to all callers, remove spec.canary, and canaryTrafficPercent or set it to 100"
_RUNTIMES = ("serving_runtime_name", "cluster_serving_runtime_name")
_ADDRESSES = ("url", "address", "components", *_RUNTIMES)


@dataclass(frozen=True)
class WaitingTemplate:
    """Another template, which the pods of a component do not get yet.

    ``since`` is the version of the operator that has rendered theirs (empty for one that did not record it),
    ``version`` that of the other one. ``fields`` are paths in the template that have another value. ``queued``: the
    pods get it when it is the service's turn.
    """

    since: str
    version: str
    fields: Sequence[str] = ()
    queued: bool = False


@dataclass(frozen=True)
class Observation:
    """Everything that the status is derived from.

    ``resolved`` is None if the service is stopped, or cannot be served as written (see ``problem``). ``components`` are
    those of the spec, the predictor first. ``held``: traffic is not routed to all of them yet. ``paused``: those
    whose pods are not changed, each with the field that requests a canary. ``waiting``: those whose pods do not get the
    template that is rendered now yet. ``contested`` are children that do not stay as they are rendered.
    ``ignored`` lists fields and annotations that are unknown or not supported.
    """

    service: InferenceService
    resolved: Resolved | None
    components: Sequence[ComponentObservation]
    route_problem: RouteProblem | None = None
    stopped: bool = False
    held: bool = False
    paused: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, WaitingTemplate] = field(default_factory=dict)
    contested: Sequence[Contested] = ()
    problem: Problem | None = None
    ignored: Sequence[str] = ()

    @property
    def predictor(self) -> ComponentObservation:
        return self.components[0]

    @property
    def waits_for_metrics(self) -> bool:
        """Whether an autoscaler does not work, which is a problem if that lasts."""
        return any(item.autoscaler and inactive(item.autoscaler) for item in self.components)


def derive_status(observed: Observation, now: str) -> InferenceServiceStatus:
    """Return the status at ``now`` (RFC 3339)."""
    previous = observed.service.status
    components, ingress = [*_components_ready(observed)], _ingress_ready(observed)
    current = [
        *components, ingress, _progressing(observed, components), *_stalled(observed, (*components, ingress)),
        _stopped(observed),
        *_storage_incomplete(observed), *_fields_ignored(observed), *_change_held_back(observed),
        *_pods_outdated(observed), *_autoscaler_problem(observed, now), *spec_not_applied(observed.contested),
        *certificate_problem(observed.resolved.tls if observed.resolved else None, now),
    ]  # fmt: skip
    current.append(conds.ready(current))
    return InferenceServiceStatus(
        observed_generation=observed.service.metadata.generation,
        conditions=conds.merge(previous.conditions, current, now),
        model_status=None if observed.stopped else _model_status(observed, previous, now),
        deployment_mode="Standard",
        **_addresses(observed),
    )


def _components_ready(observed: Observation) -> Iterator[Condition]:
    """A problem of the service is one of each of its components."""
    for component in observed.components:
        type_ = CONDITIONS[component.kind]
        if observed.stopped:
            yield conds.condition(type_, False, "Stopped", "The service is stopped by its annotation")
        elif observed.problem:
            yield conds.condition(type_, False, observed.problem.reason, observed.problem.message)
        else:
            yield component_ready(component, _before(observed, type_))


def _before(observed: Observation, type_: str) -> Condition | None:
    """Return the last condition of this type, if it was for the current generation of the service."""
    before = observed.service.status
    if before.observed_generation != observed.service.metadata.generation:
        return None
    return next((item for item in before.conditions if item.type == type_), None)


def _progressing(observed: Observation, components: Sequence[Condition]) -> Condition:
    """Return ``Progressing`` as a Deployment has it: False if nothing goes on without a change from outside.

    Its reason is that of a component whose newest pods are not all rolled out, even if older ones keep it ready.
    A change that is held back leaves it True: the service serves, and no condition of one that does is False.
    """
    for status, value in (("False", False), ("Unknown", True), ("True", True)):
        for item in components:
            if item.status == status and item.reason != ROLLED_OUT:
                goes_on = value or item.reason in OUTAGES
                return conds.condition(PROGRESSING, goes_on, item.reason, f"the condition {item.type} says more")
    if observed.paused:
        reason, message = CANARY_NOT_SUPPORTED, f"the condition {CHANGE_HELD_BACK} says more"
        return conds.condition(PROGRESSING, True, reason, message)
    if observed.held:
        message = "requests go to the pods of the previous spec until the new ones can take over"
        return conds.condition(PROGRESSING, True, "TrafficHeld", message)
    return conds.condition(PROGRESSING, True, ROLLED_OUT)


def _stalled(observed: Observation, dependents: Sequence[Condition]) -> list[Condition]:
    """Return the condition if only a change from outside can make the service ready."""
    if observed.stopped or (observed.problem and observed.problem.is_transient):
        return []
    failures = (*(component.failure for component in observed.components), None)
    for item, failure in zip(dependents, failures, strict=True):
        heals = failure.heals if failure and failure.reason == item.reason else item.reason in _HEALING
        if item.status == "False" and not heals:
            return [conds.condition(STALLED, True, item.reason, f"the condition {item.type} says more")]
    return []


def _ingress_ready(observed: Observation) -> Condition:
    if observed.stopped:
        return conds.condition(INGRESS_READY, False, "Stopped")
    if observed.resolved is None:
        return conds.condition(INGRESS_READY, None, "PredictorNotResolved")
    hosts = observed.resolved.hosts
    if guards := observed.resolved.ingress_annotations.guards:
        return conds.condition(INGRESS_READY, False, "AnnotationNotAllowed", _unguarded(guards))
    if hosts.displaced:
        return conds.condition(INGRESS_READY, False, HOST_TAKEN, _taken(hosts))
    if problem := observed.route_problem:
        return conds.condition(INGRESS_READY, False if problem.failed else None, problem.reason, problem.message)
    taken = (HOST_TAKEN, _taken(hosts)) if hosts.taken else ()
    return conds.condition(INGRESS_READY, True, *taken)


def _taken(hosts: Hosts) -> str:
    taken = ", ".join(f"{host} (InferenceService {holder})" for host, holder in islice(hosts.taken.items(), NAMED))
    return (
        f"older services have hosts that this one requests: {taken}; rename this one, or let the administrator change "
        "domainTemplate, additionalDomainTemplates or pathTemplate"
    )


def _unguarded(guards: Sequence[str]) -> str:
    return (
        f"no Ingress or HTTPRoute is created, because it would lack annotations that restrict access: "
        f"{', '.join(guards[:NAMED])}; "
        "let the administrator allow them (allowedServiceAnnotations in inferenceservice-config), or remove them"
    )


def _stopped(observed: Observation) -> Condition:
    return conds.condition(STOPPED, observed.stopped)


def _autoscaler_problem(observed: Observation, now: str) -> list[Condition]:
    """Return the condition of the first component whose autoscaler does not work."""
    before = {item.type: item for item in observed.service.status.conditions}
    is_told = AUTOSCALER_PROBLEM in before
    found = (
        autoscaler_problem(item.autoscaler, before.get(CONDITIONS[item.kind]), now, is_told=is_told)
        for item in observed.components
    )
    return next(filter(None, found), [])


def _storage_incomplete(observed: Observation) -> list[Condition]:
    warning = storage_warning(observed.predictor.pods)
    if observed.stopped or not warning:
        return []
    return [conds.condition(STORAGE_INCOMPLETE, True, "StorageWarning", one_line(warning, MESSAGE_BYTES))]


def _fields_ignored(observed: Observation) -> list[Condition]:
    if not observed.ignored:
        return []
    message = "Ignored: " + "; ".join(observed.ignored)
    return [conds.condition(FIELDS_IGNORED, True, FIELDS_IGNORED, message)]


def _change_held_back(observed: Observation) -> list[Condition]:
    if not observed.paused:
        return []
    fields = " and ".join(f"spec.{kind}" for kind in observed.paused)
    requested = ", ".join(dict.fromkeys(observed.paused.values()))
    message = (
        f"The pods of {fields} keep their previous template: {requested} requests a canary, which is not supported, "
        f"and without one all callers would get the change. {ROLL_OUT}"
    )
    return [conds.condition(CHANGE_HELD_BACK, True, CANARY_NOT_SUPPORTED, message)]


def _pods_outdated(observed: Observation) -> list[Condition]:
    if not observed.waiting:
        return []
    if any(template.queued for template in observed.waiting.values()):
        differing = "; ".join(f"spec.{kind} in {_named(template)}" for kind, template in observed.waiting.items())
        message = (
            "Something that services share has changed (a runtime, the configuration, the operator's version), and "
            f"they get new pods in turn, so many a minute (rolloutsPerMinute). The pods differ: of {differing}"
        )
        return [conds.condition(PODS_OUTDATED, True, ROLLOUT_QUEUED, message)]
    which = "; ".join(_waiting(kind, template) for kind, template in observed.waiting.items())
    message = (
        f"A newer version of the operator has another pod template, and replaces no pods by itself: {which}. They get "
        "the newer one when the service, its runtime or the configuration of its pods changes, or with the annotation "
        f"{ANNOTATION_UPGRADE_POLICY}: {UpgradePolicy.AUTO}"
    )
    return [conds.condition(PODS_OUTDATED, True, OPERATOR_UPGRADED, message)]


def _waiting(kind: str, template: WaitingTemplate) -> str:
    since = f"version {template.since}" if template.since else "an older version"
    return (
        f"the pods of spec.{kind} have the template of {since}, which {template.version} changes in {_named(template)}"
    )


def _named(template: WaitingTemplate) -> str:
    return ", ".join(template.fields[:NAMED]) or "fields that are no longer set"


def _model_status(observed: Observation, previous: InferenceServiceStatus, now: str) -> ModelStatus:
    before = previous.model_status or ModelStatus()
    active = before.states.active_model_state if before.states else "Pending"
    transition, target = _transition(observed)
    if target == "Loaded":
        active = "Loaded"
    return ModelStatus(
        transition_status=transition,
        states=ModelStates(active_model_state=active, target_model_state=target),
        last_failure_info=_failure_info(observed, before.last_failure_info, now),
        copies=ModelCopies(
            failed_copies=int(bool(observed.predictor.failure)),
            total_copies=_copies(observed),
        ),
    )


def _copies(observed: Observation) -> int:
    """Return how many pods are ready, by their Deployment as well, which a service that is resolved has."""
    ready = sum(map(is_ready, observed.predictor.pods))
    return min(ready, observed.predictor.rollout.serving) if observed.resolved else ready


def _transition(observed: Observation) -> tuple[str, str]:
    """KServe's transitionStatus and targetModelState (docs/kserve.md)."""
    if observed.problem and observed.problem.reason in FAILURE_REASONS:
        return "InvalidSpec", "FailedToLoad"
    if observed.problem and not observed.problem.is_transient:
        return "BlockedByFailedLoad", "FailedToLoad"
    predictor, failure = observed.predictor, observed.predictor.failure
    if predictor.rollout.complete:
        return "UpToDate", "Loaded" if predictor.rollout.serving else "Standby"
    if failure and failure.keeps_model:
        return "InProgress", "Loaded"
    if failure and (failure.has_log or not failure.heals):
        return "BlockedByFailedLoad", "FailedToLoad"
    if predictor.rollout.refusal or predictor.rollout.stuck or predictor.rollout.paused:
        return "BlockedByFailedLoad", "FailedToLoad"
    if predictor.stage.reason == LOADING:
        return "InProgress", "Loading"
    return "InProgress", "Pending"


def _failure_info(observed: Observation, before: FailureInfo | None, now: str) -> FailureInfo | None:
    """Return why the model cannot be loaded now. Unlike with KServe it is removed as soon as the cause is."""
    if observed.problem:
        reason, message = observed.problem.reason, observed.problem.message
        known = "ModelLoadFailed" if reason == InvalidCredentials.reason else "RuntimeUnhealthy"
        info = FailureInfo(
            reason=reason if reason in FAILURE_REASONS else known, message=shortened(visible(message), MESSAGE_BYTES)
        )
    elif (failure := observed.predictor.failure) and not observed.predictor.rollout.complete:
        info = FailureInfo(
            location=failure.location,
            reason="ModelLoadFailed" if failure.has_log and not failure.keeps_model else "RuntimeUnhealthy",
            message=shortened(visible(explain(failure, observed.predictor.log)), MESSAGE_BYTES),
            exit_code=failure.exit_code,
        )
    else:
        return None
    same = before is not None and before.model_copy(update={"time": None}) == info
    return info.model_copy(update={"time": before.time if before and same else now})


def _addresses(observed: Observation) -> dict[str, Any]:
    """Return the service's addresses; the previous ones if it cannot be resolved, as its children are kept.

    So are those of components from which traffic cannot be moved to others, or not yet.
    """
    if observed.stopped:
        return {}
    if observed.resolved is None:
        return {name: getattr(observed.service.status, name) for name in _ADDRESSES}
    hosts, chosen = observed.resolved.hosts, observed.resolved.chosen
    addresses: dict[str, Any] = {
        "url": hosts.url,
        "address": Addressable(url=hosts.address),
        "components": {kind: ComponentStatus(url=url) for kind, url in hosts.urls.items()},
    }
    if (observed.held or observed.problem) and (before := observed.service.status).address:
        addresses |= {"address": before.address, "components": before.components}
    if PREDICTOR in observed.paused or PREDICTOR in observed.waiting:
        return addresses | {name: getattr(observed.service.status, name) for name in _RUNTIMES}
    if chosen:
        field = "cluster_serving_runtime_name" if chosen.cluster_wide else "serving_runtime_name"
        addresses[field] = chosen.runtime.metadata.name
    return addresses
