"""The status of a service, derived from what was resolved and observed. Pure: the time is passed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from isvc_operator.api.names import INGRESS_READY, PREDICTOR_READY, SPEC_SUPPORTED, STOPPED
from isvc_operator.errors import InvalidCredentials
from isvc_operator.observe import conditions as conds
from isvc_operator.observe.pods import Failure, Stage, is_ready
from isvc_operator.observe.rollout import Rollout
from isvc_operator.resolve import Resolved

# Reasons of ours that KServe's clients are to take for a model that cannot be loaded.
_LOAD_FAILURES = (InvalidCredentials.reason,)


@dataclass(frozen=True)
class Observation:
    """Everything that the status is derived from.

    ``resolved`` is None where the service cannot be served as written (``problem`` says why) or is stopped.
    ``problem`` is a (reason, message) that stands in the way before any pod does. ``log`` holds the last lines of the
    failed container, ``progress`` how far the model is on its way. ``ignored`` lists fields that are unknown or not
    honoured.
    """

    service: InferenceService
    resolved: Resolved | None
    rollout: Rollout
    pods: Sequence[Mapping[str, Any]]
    failure: Failure | None
    stage: Stage
    ingress_exists: bool
    stopped: bool = False
    problem: tuple[str, str] | None = None
    log: str = ""
    progress: str = ""
    ignored: Sequence[str] = ()


def derive_status(seen: Observation, now: str) -> InferenceServiceStatus:
    """The status to show at ``now`` (RFC 3339)."""
    previous = seen.service.status
    current = [_predictor_ready(seen), _ingress_ready(seen), _stopped(seen), *_spec_supported(seen)]
    current.append(conds.ready(current))
    return InferenceServiceStatus(
        observed_generation=seen.service.metadata.generation,
        conditions=conds.merge(previous.conditions, current, now),
        model_status=None if seen.stopped else _model_status(seen, previous, now),
        deployment_mode="Standard",
        **_addresses(seen.resolved),
    )


def explain(failure: Failure, log: str) -> str:
    """The failure in full: where, exit code, cause, cure, last log lines."""
    code = f" ended with exit code {failure.exit_code}" if failure.exit_code is not None else ""
    text = f"{failure.location}{code}: {failure.cause}"
    if failure.cure:
        text = f"{text.rstrip('.')}; {failure.cure}"
    return f"{text}\nLast log lines:\n{log}" if log else text


def _predictor_ready(seen: Observation) -> Condition:
    rollout = seen.rollout
    if seen.stopped:
        return conds.condition(PREDICTOR_READY, False, "Stopped", "The service is stopped by its annotation")
    if seen.problem:
        return conds.condition(PREDICTOR_READY, False, *seen.problem)
    if rollout.complete:
        return conds.condition(PREDICTOR_READY, True, "NewReplicaSetAvailable")
    if seen.failure:
        message = explain(seen.failure, seen.log)
        return conds.condition(PREDICTOR_READY, False, seen.failure.reason, message + _still_serving(rollout))
    if rollout.refusal:
        return conds.condition(PREDICTOR_READY, False, "PodsRefused", rollout.refusal)
    progress = f": {seen.progress}" if seen.progress else ""
    message = f"{seen.stage.message}{progress} ({rollout.message})"
    if rollout.stuck:
        message += ", and nothing has moved within the Deployment's deadline"
        return conds.condition(PREDICTOR_READY, False, "ProgressDeadlineExceeded", message)
    return conds.condition(PREDICTOR_READY, None, seen.stage.reason, message)


def _still_serving(rollout: Rollout) -> str:
    return f"\nRequests are still served ({rollout.serving} pods available)." if rollout.serving else ""


def _ingress_ready(seen: Observation) -> Condition:
    if seen.stopped:
        return conds.condition(INGRESS_READY, False, "Stopped")
    if seen.resolved is None:
        return conds.condition(INGRESS_READY, None, "PredictorNotResolved")
    if seen.ingress_exists or not seen.resolved.hosts.external:
        return conds.condition(INGRESS_READY, True)
    return conds.condition(INGRESS_READY, False, "IngressNotCreated", "The Ingress does not exist yet")


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
        copies=ModelCopies(failed_copies=int(bool(seen.failure)), total_copies=sum(map(is_ready, seen.pods))),
    )


def _transition(seen: Observation) -> tuple[str, str]:
    """KServe's transitionStatus and targetModelState (contract §2.5)."""
    if seen.problem and seen.problem[0] in FAILURE_REASONS:
        return "InvalidSpec", "FailedToLoad"
    if seen.problem and seen.problem[0] in _LOAD_FAILURES:
        return "BlockedByFailedLoad", "FailedToLoad"
    if seen.rollout.complete:
        return "UpToDate", "Loaded"
    if seen.failure and seen.failure.has_log:
        return "BlockedByFailedLoad", "FailedToLoad"
    if seen.stage.reason == "LoadingModel":
        return "InProgress", "Loading"
    return "InProgress", "Pending"


def _failure_info(seen: Observation, before: FailureInfo | None, now: str) -> FailureInfo | None:
    """What stops the model now. Unlike KServe's it goes when the cause has gone."""
    if seen.problem:
        reason, message = seen.problem
        known = "ModelLoadFailed" if reason in _LOAD_FAILURES else "RuntimeUnhealthy"
        info = FailureInfo(reason=reason if reason in FAILURE_REASONS else known, message=message)
    elif seen.failure and not seen.rollout.complete:
        reason = "ModelLoadFailed" if seen.failure.has_log else "RuntimeUnhealthy"
        info = FailureInfo(
            location=seen.failure.location,
            reason=reason,
            message=explain(seen.failure, seen.log),
            exit_code=seen.failure.exit_code,
        )
    else:
        return None
    same = before is not None and before.model_copy(update={"time": None}) == info
    return info.model_copy(update={"time": before.time if before and same else now})


def _addresses(resolved: Resolved | None) -> dict[str, Any]:
    if resolved is None:
        return {}
    hosts, runtime = resolved.hosts, resolved.chosen.runtime.metadata.name
    return {
        "url": hosts.url,
        "address": Addressable(url=hosts.address),
        "components": {"predictor": ComponentStatus(url=hosts.predictor_url)},
        ("cluster_serving_runtime_name" if resolved.chosen.cluster_wide else "serving_runtime_name"): runtime,
    }
