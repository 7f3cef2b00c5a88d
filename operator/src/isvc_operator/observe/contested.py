"""Children that do not stay as they are rendered, and the condition that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice

from isvc_operator.api.inference_service import Condition
from isvc_operator.api.names import ANNOTATION_AUTOSCALER, CHANGED_BY_OTHERS, FIELDS_NOT_KEPT, SPEC_APPLIED
from isvc_operator.limits import LINE_BYTES, NAMED
from isvc_operator.observe.conditions import condition
from isvc_operator.text import one_line

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
        fields = ", ".join(one_line(field, LINE_BYTES) for field in self.fields)
        if self.cause is Cause.NOT_KEPT:
            return (
                f"{child}: the API server does not keep {fields} as applied. Either a mutating webhook or policy "
                "changes it (kubectl get mutatingwebhookconfigurations,mutatingadmissionpolicies), and has to leave it "
                "alone; or a feature of the cluster is off, and the setting has to be removed"
            )
        text = (
            f"{child}: {self._managers} changes {fields}, which is restored at growing intervals. "
            f"Stop it from doing so, or write its value in the InferenceService or its runtime"
        )
        return f"{text}. {_AUTOSCALED}" if "spec.replicas" in self.fields else text

    @property
    def _managers(self) -> str:
        return " and ".join(one_line(manager, LINE_BYTES) for manager in self.managers) or _UNKNOWN


def spec_applied(contested: Sequence[Contested]) -> list[Condition]:
    """Return the condition, if a child is contested."""
    if not contested:
        return []
    changed = any(item.cause is not Cause.NOT_KEPT for item in contested)
    message = "\n".join(item.message for item in islice(contested, NAMED))
    return [condition(SPEC_APPLIED, False, CHANGED_BY_OTHERS if changed else FIELDS_NOT_KEPT, message)]
