"""Conditions: made, merged and summed up. The merge is total (every condition is looked at) and stable in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from isvc_operator.api.inference_service import Condition
from isvc_operator.api.names import EXPLAINER_READY, INGRESS_READY, PREDICTOR_READY, READY, TRANSFORMER_READY
from isvc_operator.limits import MESSAGE_BYTES
from isvc_operator.text import shortened, visible

# These decide ``Ready``; all others carry severity Info. With KServe a transformer and an explainer decide it, too, but
# in a roundabout way: without them its ingress is not made (contract §2.2).
_DEPENDENTS = (PREDICTOR_READY, TRANSFORMER_READY, EXPLAINER_READY, INGRESS_READY)


def condition(type_: str, status: bool | None, reason: str | None = None, message: str | None = None) -> Condition:
    """A condition; ``None`` is Unknown. Its transition time is set by ``merge``.

    The message may be of any text: it is bounded here, and nothing in it acts.
    """
    return Condition(
        type=type_,
        status={True: "True", False: "False", None: "Unknown"}[status],
        severity=None if type_ in (READY, *_DEPENDENTS) else "Info",
        reason=reason or None,
        message=shortened(visible(message), MESSAGE_BYTES) if message else None,
    )


def ready(conditions: Sequence[Condition]) -> Condition:
    """``Ready``: False where a dependent is False, else Unknown where one is, with that one's words."""
    dependents = [item for item in conditions if item.type in _DEPENDENTS]
    for status, value in (("False", False), ("Unknown", None)):
        for item in dependents:
            if item.status == status:
                return condition(READY, value, item.reason, item.message)
    return condition(READY, True)


def merge(previous: Iterable[Condition], current: Iterable[Condition], now: str) -> list[Condition]:
    """``current`` sorted by type; one that says what it said before keeps its transition time."""
    known = {item.type: item for item in previous}
    return sorted((_with_time(item, known.get(item.type), now) for item in current), key=lambda item: item.type)


def _with_time(current: Condition, previous: Condition | None, now: str) -> Condition:
    if previous is not None and _words(previous) == _words(current):
        return current.model_copy(update={"last_transition_time": previous.last_transition_time or now})
    return current.model_copy(update={"last_transition_time": now})


def _words(item: Condition) -> tuple[str | None, ...]:
    return item.status, item.severity, item.reason, item.message
