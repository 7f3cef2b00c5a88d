"""What is seen of one component, and the condition that says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isvc_operator.api.inference_service import Condition
from isvc_operator.api.names import (
    EXPLAINER,
    EXPLAINER_READY,
    PREDICTOR,
    PREDICTOR_READY,
    TRANSFORMER,
    TRANSFORMER_READY,
)
from isvc_operator.limits import LOG_BYTES, PROGRESS_BYTES
from isvc_operator.observe.conditions import condition
from isvc_operator.observe.pods import Failure, Stage
from isvc_operator.observe.rollout import Rollout
from isvc_operator.text import one_line, quoted

CONDITIONS: Final = {PREDICTOR: PREDICTOR_READY, TRANSFORMER: TRANSFORMER_READY, EXPLAINER: EXPLAINER_READY}


@dataclass(frozen=True)
class Seen:
    """One component's Deployment and pods.

    ``log`` holds the last lines of the container that has failed, or is not ready for long; ``progress`` says how far
    the model is on its way.
    """

    kind: str
    rollout: Rollout
    pods: Sequence[Mapping[str, Any]]
    failure: Failure | None
    stage: Stage
    log: str = ""
    progress: str = ""


def component_ready(seen: Seen) -> Condition:
    """The component's condition, where nothing stands in the way of its pods."""
    type_, rollout = CONDITIONS[seen.kind], seen.rollout
    if rollout.complete:
        return condition(type_, True, "NewReplicaSetAvailable", None if rollout.serving else rollout.message)
    if seen.failure:
        message = explain(seen.failure, seen.log)
        return condition(type_, False, seen.failure.reason, message + _still_serving(rollout))
    if rollout.refusal:
        return condition(type_, False, "PodsRefused", rollout.refusal)
    progress = f": {one_line(seen.progress, PROGRESS_BYTES)}" if seen.progress else ""
    message = f"{seen.stage.message}{progress} ({rollout.message})"
    if rollout.stuck:
        message += ", and nothing has moved within the Deployment's deadline"
        return condition(type_, False, "ProgressDeadlineExceeded", _with_log(message, seen.log))
    return condition(type_, None, seen.stage.reason, _with_log(message, seen.log))


def explain(failure: Failure, log: str) -> str:
    """The failure in full: where, exit code, cause, cure, last log lines."""
    code = f" ended with exit code {failure.exit_code}" if failure.exit_code is not None else ""
    text = f"{failure.location}{code}: {quoted(failure.cause, LOG_BYTES)}"
    if failure.cure:
        separator = "\n" if "\n" in text else "; "
        text = f"{text.rstrip('.')}{separator}{failure.cure}"
    return _with_log(text, log)


def _with_log(text: str, log: str) -> str:
    return f"{text}\nLast log lines:\n| {quoted(log, LOG_BYTES)}" if log else text


def _still_serving(rollout: Rollout) -> str:
    return f"\nRequests are still served ({rollout.serving} pods available)." if rollout.serving else ""
