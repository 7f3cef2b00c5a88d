"""The status of a service, derived from what was resolved and observed. Pure: the time is passed in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from isvc_operator.api.names import HOST_TAKEN, INGRESS_READY, SPEC_SUPPORTED, STOPPED
from isvc_operator.errors import InvalidCredentials
from isvc_operator.limits import MESSAGE_BYTES, NAMED
from isvc_operator.observe import conditions as conds
from isvc_operator.observe.component import CONDITIONS, Seen, component_ready, explain
from isvc_operator.observe.pods import is_ready
from isvc_operator.resolve import Resolved
from isvc_operator.resolve.hosts import Hosts
from isvc_operator.text import shortened, visible

# Reasons of ours that KServe's clients are to take for a model that cannot be loaded.
_LOAD_FAILURES = (InvalidCredentials.reason,)
_ADDRESSES = ("url", "address", "components", "serving_runtime_name", "cluster_serving_runtime_name")


@dataclass(frozen=True)
class Observation:
    """Everything that the status is derived from.

    ``resolved`` is None where the service cannot be served as written (``problem`` says why) or is stopped.
    ``components`` are those that the service wants, the predictor first. ``held``: callers are not led to all of them
    yet. ``problem`` is a (reason, message) that stands in the way before any pod does. ``ignored`` lists fields that
    are unknown or not honoured.
    """

    service: InferenceService
    resolved: Resolved | None
    components: Sequence[Seen]
    ingress_exists: bool
    stopped: bool = False
    held: bool = False
    problem: tuple[str, str] | None = None
    ignored: Sequence[str] = ()

    @property
    def predictor(self) -> Seen:
        """The component that has the model."""
        return self.components[0]


def derive_status(seen: Observation, now: str) -> InferenceServiceStatus:
    """The status to show at ``now`` (RFC 3339)."""
    previous = seen.service.status
    current = [*_components_ready(seen), _ingress_ready(seen), _stopped(seen), *_spec_supported(seen)]
    current.append(conds.ready(current))
    return InferenceServiceStatus(
        observed_generation=seen.service.metadata.generation,
        conditions=conds.merge(previous.conditions, current, now),
        model_status=None if seen.stopped else _model_status(seen, previous, now),
        deployment_mode="Standard",
        **_addresses(seen),
    )


def _components_ready(seen: Observation) -> Iterator[Condition]:
    """What stands in the way of the service stands in the way of each component."""
    for component in seen.components:
        type_ = CONDITIONS[component.kind]
        if seen.stopped:
            yield conds.condition(type_, False, "Stopped", "The service is stopped by its annotation")
        elif seen.problem:
            yield conds.condition(type_, False, *seen.problem)
        else:
            yield component_ready(component)


def _ingress_ready(seen: Observation) -> Condition:
    if seen.stopped:
        return conds.condition(INGRESS_READY, False, "Stopped")
    if seen.resolved is None:
        return conds.condition(INGRESS_READY, None, "PredictorNotResolved")
    hosts = seen.resolved.hosts
    if guards := seen.resolved.ingress_annotations.guards:
        return conds.condition(INGRESS_READY, False, "AnnotationNotAllowed", _unguarded(guards))
    if hosts.displaced:
        return conds.condition(INGRESS_READY, False, HOST_TAKEN, _taken(hosts))
    if seen.ingress_exists or not hosts.external:
        taken = (HOST_TAKEN, _taken(hosts)) if hosts.taken else ()
        return conds.condition(INGRESS_READY, True, *taken)
    return conds.condition(INGRESS_READY, False, "IngressNotCreated", "The Ingress does not exist yet")


def _taken(hosts: Hosts) -> str:
    held = ", ".join(f"{host} (InferenceService {holder})" for host, holder in islice(hosts.taken.items(), NAMED))
    return (
        f"older services have hosts that this one asks for: {held}; rename this one, or let the administrator change "
        "domainTemplate or additionalDomainTemplates"
    )


def _unguarded(guards: Sequence[str]) -> str:
    return (
        f"no Ingress is made, as it would lack what guards the service: {', '.join(guards[:NAMED])}; let the "
        "administrator allow it (allowedServiceAnnotations of ingress in inferenceservice-config), or remove it"
    )


def _stopped(seen: Observation) -> Condition:
    return conds.condition(STOPPED, seen.stopped)


def _spec_supported(seen: Observation) -> list[Condition]:
    if not seen.ignored:
        return []
    message = "Not honoured: " + "; ".join(seen.ignored)
    return [conds.condition(SPEC_SUPPORTED, False, "FieldsIgnored", message)]


def _model_status(seen: Observation, previous: InferenceServiceStatus, now: str) -> ModelStatus:
    before = previous.model_status or ModelStatus()
    active = before.states.active_model_state if before.states else "Pending"
    transition, target = _transition(seen)
    if target == "Loaded":
        active = "Loaded"
    return ModelStatus(
        transition_status=transition,
        states=ModelStates(active_model_state=active, target_model_state=target),
        last_failure_info=_failure_info(seen, before.last_failure_info, now),
        copies=ModelCopies(
            failed_copies=int(bool(seen.predictor.failure)), total_copies=sum(map(is_ready, seen.predictor.pods))
        ),
    )


def _transition(seen: Observation) -> tuple[str, str]:
    """KServe's transitionStatus and targetModelState (contract §2.5)."""
    if seen.problem and seen.problem[0] in FAILURE_REASONS:
        return "InvalidSpec", "FailedToLoad"
    if seen.problem and seen.problem[0] in _LOAD_FAILURES:
        return "BlockedByFailedLoad", "FailedToLoad"
    predictor = seen.predictor
    if predictor.rollout.complete:
        return "UpToDate", "Loaded" if predictor.rollout.serving else "Standby"
    if predictor.failure and predictor.failure.has_log:
        return "BlockedByFailedLoad", "FailedToLoad"
    if predictor.stage.reason == "LoadingModel":
        return "InProgress", "Loading"
    return "InProgress", "Pending"


def _failure_info(seen: Observation, before: FailureInfo | None, now: str) -> FailureInfo | None:
    """What stops the model now. Unlike KServe's it goes when the cause has gone."""
    if seen.problem:
        reason, message = seen.problem
        known = "ModelLoadFailed" if reason in _LOAD_FAILURES else "RuntimeUnhealthy"
        info = FailureInfo(
            reason=reason if reason in FAILURE_REASONS else known, message=shortened(visible(message), MESSAGE_BYTES)
        )
    elif (failure := seen.predictor.failure) and not seen.predictor.rollout.complete:
        info = FailureInfo(
            location=failure.location,
            reason="ModelLoadFailed" if failure.has_log else "RuntimeUnhealthy",
            message=shortened(visible(explain(failure, seen.predictor.log)), MESSAGE_BYTES),
            exit_code=failure.exit_code,
        )
    else:
        return None
    same = before is not None and before.model_copy(update={"time": None}) == info
    return info.model_copy(update={"time": before.time if before and same else now})


def _addresses(seen: Observation) -> dict[str, Any]:
    """Where the service answers. What cannot be resolved is left as it runs, and so answers where it did.

    So do components from which callers are not led to others yet, or cannot be.
    """
    if seen.stopped:
        return {}
    if seen.resolved is None:
        return {name: getattr(seen.service.status, name) for name in _ADDRESSES}
    hosts, chosen = seen.resolved.hosts, seen.resolved.chosen
    addresses: dict[str, Any] = {
        "url": hosts.url,
        "address": Addressable(url=hosts.address),
        "components": {kind: ComponentStatus(url=url) for kind, url in hosts.urls.items()},
    }
    if (seen.held or seen.problem) and (before := seen.service.status).address:
        addresses |= {"address": before.address, "components": before.components}
    if chosen:
        field = "cluster_serving_runtime_name" if chosen.cluster_wide else "serving_runtime_name"
        addresses[field] = chosen.runtime.metadata.name
    return addresses
