"""Errors of requests to the API server; ``client`` raises them."""

from __future__ import annotations

import json
import re
from typing import Any, Final, Self

from isvc_operator.errors import OperatorError

_MESSAGE_CHARACTERS: Final = 500  # of a response that is not a Status


class KubeError(OperatorError):
    """The API server refused or failed a request.

    ``status`` is the HTTP status, 0 if there was no response. ``retry_after`` is after how many seconds the API server
    asks to send the request again, if it does.
    """

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after

    @property
    def is_transient(self) -> bool:
        """Whether the API server was busy, restarting or out of reach, so that the same request may succeed soon."""
        return self.status in (0, 429) or self.status >= 500

    def reworded(self, message: str) -> Self:
        error = type(self).__new__(type(self), message)  # what __init__ takes differs between the classes
        vars(error).update(vars(self))
        return error


class ServerBusy(KubeError):
    """The API server, or a proxy before it, asks for a pause before it has looked at the request."""


class ObjectNotFound(KubeError):
    """404: the object does not exist."""


class Conflict(KubeError):
    """409: the object, or the quota that it counts for, has changed meanwhile."""

    @property
    def is_transient(self) -> bool:
        """It is: a request that is made from what exists now can succeed."""
        return True


class AlreadyExists(Conflict):
    """409: an object of the name that was to be created exists."""


class NotOurs(Conflict):
    """409: another manager has set a field of the request, or the object belongs to another service."""

    @property
    def is_transient(self) -> bool:
        """It is not: somebody has to decide whose the object is."""
        return False


class ResponseTooLarge(KubeError):
    """The response has more bytes than any that was asked for should have."""


class RequestRefused(KubeError):
    """400, 403 or 422: the request is not allowed or not valid; only a change of spec, RBAC or policy helps."""


class NotPermitted(RequestRefused):
    """403: the operator's account lacks a permission. What admission refuses, such as a quota, has another class."""


class NamespaceEnding(RequestRefused):
    """403 or 404: the namespace is being deleted, or does not exist any more."""


def refused_by(error: KubeError) -> str:
    """Return which of Kubernetes' three steps has refused a request, for a 401 or 403."""
    if error.status == 401:
        return "authentication"
    if error.status == 403:
        return "authorization" if isinstance(error, NotPermitted) else "admission"
    return ""


def error_for(status: int, text: str, retry_after: float | None = None) -> KubeError:
    """Return the error for a response of the API server; ``text`` is its body, most often a Status object."""
    try:
        body: Any = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        kind = ServerBusy if retry_after is not None and (status == 429 or status >= 500) else _KINDS.get(status)
        return (kind or KubeError)(status, text[:_MESSAGE_CHARACTERS] or f"HTTP {status}", retry_after)
    return _kind_for(status, body)(status, str(body.get("message", text[:_MESSAGE_CHARACTERS])), retry_after)


# In the words of the authorizer, and of the plug-in OwnerReferencesPermissionEnforcement.
_NOT_PERMITTED: Final = re.compile(r'(\S+( "[^"]*")? is )?forbidden: (User "|cannot set blockOwnerDeletion )')
_KINDS: Final[dict[int, type[KubeError]]] = {
    400: RequestRefused,
    403: RequestRefused,
    404: ObjectNotFound,
    409: Conflict,
    422: RequestRefused,
}


def _kind_for(status: int, body: dict[str, Any]) -> type[KubeError]:
    details = body.get("details")
    details = details if isinstance(details, dict) else {}
    causes = {cause.get("reason") for cause in details.get("causes") or () if isinstance(cause, dict)}
    if (status == 403 and "NamespaceTerminating" in causes) or (status == 404 and details.get("kind") == "namespaces"):
        return NamespaceEnding
    if status == 403 and _NOT_PERMITTED.match(str(body.get("message"))):
        return NotPermitted
    if status == 409 and "FieldManagerConflict" in causes:
        return NotOurs
    if status == 409 and body.get("reason") == "AlreadyExists":
        return AlreadyExists
    return _KINDS.get(status, KubeError)
