"""Creates conditions, merges them with the previous ones, and derives ``Ready`` and the service's phase from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from itertools import islice

from isvc_operator.api.inference_service import Condition
from isvc_operator.api.names import (
    ANNOTATION_AUTOSCALER,
    AUTOSCALER_PROBLEM,
    CERTIFICATE_EXPIRED,
    CERTIFICATE_EXPIRES,
    CERTIFICATE_PROBLEM,
    CHANGE_HELD_BACK,
    CHANGED_BY_OTHERS,
    EXPLAINER_READY,
    FIELDS_IGNORED,
    FIELDS_NOT_KEPT,
    HOSTS_MISSING,
    INGRESS_READY,
    PODS_OUTDATED,
    PREDICTOR_READY,
    READY,
    SPEC_NOT_APPLIED,
    STALLED,
    STOPPED,
    STORAGE_INCOMPLETE,
    TRANSFORMER_READY,
)
from isvc_operator.limits import LINE_BYTES, MESSAGE_BYTES, NAMED
from isvc_operator.manifests import Manifest
from isvc_operator.resolve.front import ServingTls
from isvc_operator.telemetry.snapshot import Phase, ServiceCondition
from isvc_operator.text import one_line, shortened, visible

# ``Ready`` depends on these. With KServe it depends on a transformer and an explainer indirectly: its Ingress is
# created only when they are ready (docs/kserve.md).
_DEPENDENTS = (PREDICTOR_READY, TRANSFORMER_READY, EXPLAINER_READY, INGRESS_READY)
# A service that has these conditions serves, but not all that its owner has asked for. All others have severity Info.
_WARNINGS = (
    AUTOSCALER_PROBLEM,
    CERTIFICATE_PROBLEM,
    FIELDS_IGNORED,
    SPEC_NOT_APPLIED,
    CHANGE_HELD_BACK,
    STORAGE_INCOMPLETE,
)
_NEWS = (*_WARNINGS, PODS_OUTDATED, STALLED, STOPPED)
# The last words of the message of ``Ready``, which dashboards and ``kubectl get`` show, unlike other conditions.
_NOTES = {
    CERTIFICATE_PROBLEM: "The certificate of the pods needs attention; the condition CertificateProblem says why",
    SPEC_NOT_APPLIED: "Objects of the service do not stay as they are applied; the condition SpecNotApplied says why",
    CHANGE_HELD_BACK: "The last change is held back; the condition ChangeHeldBack says why",
    AUTOSCALER_PROBLEM: "An autoscaler does not work; the condition AutoscalerProblem says why",
    FIELDS_IGNORED: "Some settings have no effect; the condition FieldsIgnored lists them",
}


def condition(type_: str, status: bool | None, reason: str | None = None, message: str | None = None) -> Condition:
    """Return a condition; status ``None`` is Unknown. ``merge`` sets its transition time.

    The message may contain text of any origin: here its length is limited, and control characters are escaped.
    """
    return Condition(
        type=type_,
        status={True: "True", False: "False", None: "Unknown"}[status],
        severity=_severity(type_),
        reason=reason or None,
        message=shortened(visible(message), MESSAGE_BYTES) if message else None,
    )


def _severity(type_: str) -> str | None:
    if type_ in (READY, *_DEPENDENTS):
        return None
    return "Warning" if type_ in _WARNINGS else "Info"


def ready(conditions: Sequence[Condition]) -> Condition:
    """Return ``Ready``: False if a dependent is False, else Unknown if one is, with its reason and message.

    The message ends with references to conditions that say what else the owner has to know.
    """
    dependents = [item for item in conditions if item.type in _DEPENDENTS]
    note = "\n".join(_NOTES[type_] for type_ in _NOTES if any(item.type == type_ for item in conditions))
    for status, value in (("False", False), ("Unknown", None)):
        for item in dependents:
            if item.status == status:
                return condition(READY, value, item.reason, _ending_with(note, item.message or ""))
    return condition(READY, True, message=note)


def _ending_with(note: str, message: str) -> str:
    """Return the message with the note on a line of its own; the message is shortened so that the note fits."""
    if not note or not message:
        return note or message
    return f"{shortened(message, MESSAGE_BYTES - len(note) - 1)}\n{note}"


def merge(previous: Iterable[Condition], current: Iterable[Condition], now: str) -> list[Condition]:
    """Return ``current`` sorted by type; a condition whose status is unchanged keeps its transition time."""
    known = {item.type: item for item in previous}
    return sorted((_with_time(item, known.get(item.type), now) for item in current), key=lambda item: item.type)


def _with_time(current: Condition, previous: Condition | None, now: str) -> Condition:
    if previous is not None and previous.status == current.status:
        return current.model_copy(update={"last_transition_time": previous.last_transition_time or now})
    return current.model_copy(update={"last_transition_time": now})


def is_another_stage(before: Sequence[Condition], after: Sequence[Condition]) -> bool:
    """Whether a service goes on starting: ``Ready`` has another reason, and no condition another status than before."""
    old, new = (next((it for it in conditions if it.type == READY), None) for conditions in (before, after))
    moves = old is not None and new is not None and new.status == "Unknown" and old.reason != new.reason
    return moves and have_same_statuses(before, after)


def have_same_statuses(before: Sequence[Condition], after: Sequence[Condition]) -> bool:
    """Whether at most reasons and messages differ."""
    old, new = ({item.type: item.status for item in conditions} for conditions in (before, after))
    return old == new


_RENEW = "renew it: the pods read the new one without a restart"


def certificate_problem(tls: ServingTls | None, now: str) -> list[Condition]:
    """Return the condition at ``now`` (RFC 3339); none for a certificate that needs no attention."""
    if tls is None or tls.certificate is None:
        return []
    at, ends = datetime.fromisoformat(now), tls.certificate.ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    which = f"the certificate of secret {tls.secret}"
    if at >= tls.certificate.ends:
        return [_certificate_problem(CERTIFICATE_EXPIRED, f"clients refuse {which} since {ends}; {_RENEW}")]
    if tls.certificate.expires_soon(at):
        return [_certificate_problem(CERTIFICATE_EXPIRES, f"clients will refuse {which} from {ends} on; {_RENEW}")]
    if tls.missing:
        names = ", ".join(tls.missing)
        return [_certificate_problem(HOSTS_MISSING, f"{which} is not for {names}; add these names to it")]
    return []


def _certificate_problem(reason: str, message: str) -> Condition:
    return condition(CERTIFICATE_PROBLEM, True, reason, message)


_BY_READY = {"True": Phase.READY, "False": Phase.FAILED, "Unknown": Phase.STARTING}


def phase_of(service: Manifest) -> Phase:
    """Return the phase that the service's stored status reports."""
    if service["metadata"].get("deletionTimestamp"):
        return Phase.TERMINATING
    conditions = {item["type"]: item["status"] for item in _stored(service)}
    if conditions.get(STOPPED) == "True":
        return Phase.STOPPED
    return _BY_READY.get(conditions.get(READY, ""), Phase.PENDING)


def service_conditions(service: Manifest) -> Iterator[ServiceCondition]:
    """Yield ``Ready``, and the conditions that are True of what not every service has; for metrics, few of each."""
    metadata = service["metadata"]
    for item in _stored(service):
        if item["type"] == READY or (item["type"] in _NEWS and item["status"] == "True"):
            labels = (item["type"], item["status"], item.get("reason") or "")
            yield ServiceCondition(metadata["namespace"], metadata["name"], *labels)


def _stored(service: Manifest) -> Sequence[Manifest]:
    found: Sequence[Manifest] = (service.get("status") or {}).get("conditions") or ()
    return found


_AUTOSCALED = (
    "If an autoscaler of yours is to set the number of pods, annotate the service with "
    f"{ANNOTATION_AUTOSCALER}: external"
)
# Who has only removed fields is not among the managers of an object.
_UNKNOWN = "another client (the API server's audit log says which)"


class Cause(Enum):
    """Why a child is not as rendered."""

    CHANGED = auto()  # another client writes to it whenever it is restored
    DELETED = auto()  # another client deletes it whenever it is created
    CREATED = auto()  # another client creates it whenever it is deleted
    NOT_KEPT = auto()  # the API server has changed what was applied, in the same write


@dataclass(frozen=True)
class Contested:
    """A child, the paths of the fields that are not as rendered, and the other managers of these fields, if known."""

    kind: str
    name: str
    cause: Cause
    fields: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Who does what, and what to do."""
        child = f"{self.kind} {self.name}"
        if self.cause is Cause.DELETED:
            return (
                f"{child} is deleted again and again, and created at growing intervals. "
                "Find out who deletes it in the API server's audit log, and stop that"
            )
        if self.cause is Cause.CREATED:
            return (
                f"{child} is created again and again for this service, which needs none, and deleted at growing "
                f"intervals. Stop {self._managers} from doing so"
            )
        if self.cause is Cause.NOT_KEPT:
            return (
                f"{child}: the API server does not keep {self._fields} as applied. Either a mutating webhook or policy "
                "changes it (kubectl get mutatingwebhookconfigurations,mutatingadmissionpolicies), and has to leave it "
                "alone; or a feature of the cluster is off, and the setting has to be removed"
            )
        text = (
            f"{child}: {self._managers} changes {self._fields}, which is restored at growing intervals. "
            f"Stop it from doing so, or write its value in the InferenceService or its runtime"
        )
        return f"{text}. {_AUTOSCALED}" if "spec.replicas" in self.fields else text

    @property
    def is_fight(self) -> bool:
        """Whether another client undoes each restore, which the API server has kept."""
        return self.cause is not Cause.NOT_KEPT

    @property
    def restored(self) -> str:
        """Who has changed what, once it is undone."""
        child = f"{self.kind} {self.name}"
        if self.cause is Cause.DELETED:
            return f"{child} was deleted by {_UNKNOWN}, and is created again"
        if self.cause is Cause.CREATED:
            return f"{child} was created by {self._managers} for this service, which needs none, and is deleted"
        return f"{child}: {self._managers} has changed {self._fields}, which is restored"

    @property
    def _fields(self) -> str:
        return ", ".join(one_line(field, LINE_BYTES) for field in self.fields)

    @property
    def _managers(self) -> str:
        return " and ".join(one_line(manager, LINE_BYTES) for manager in self.managers) or _UNKNOWN


def spec_not_applied(contested: Sequence[Contested]) -> list[Condition]:
    """Return the condition, if a child is contested."""
    if not contested:
        return []
    changed = any(item.is_fight for item in contested)
    message = "\n".join(item.message for item in islice(contested, NAMED))
    return [condition(SPEC_NOT_APPLIED, True, CHANGED_BY_OTHERS if changed else FIELDS_NOT_KEPT, message)]
