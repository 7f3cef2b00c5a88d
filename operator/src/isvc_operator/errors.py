"""The operator's errors. Each carries the condition reason that a user reads.

    OperatorError
    ├── ConfigError          the operator's own configuration is invalid: its ConfigMap, or what it is started with
    ├── InvalidSpec          the service cannot be served as written; waits for an edit
    │   └── InvalidCredentials   a secret that its storage refers to is missing or invalid; checked again regularly
    │       └── InvalidCertificate   the same, of the secret that its pods serve TLS with
    ├── kube.informer.watching.OlderState   the API server's state went back; the operator ends, and starts anew
    ├── Unexpected           a bug in the operator; retried
    └── kube.errors.KubeError    the API server refused or failed a request (kube/errors.py)

``reconcile`` turns them into conditions, and ``cli`` into exit codes.
"""

from __future__ import annotations

from dataclasses import dataclass

from isvc_operator.limits import LOG_BYTES
from isvc_operator.text import one_line


class OperatorError(Exception):
    """Root of the operator's errors."""

    reason = "ReconcileFailed"

    @property
    def is_transient(self) -> bool:
        """Whether the same may succeed soon."""
        return False


class ConfigError(OperatorError):
    """A key of ``inferenceservice-config`` has an invalid value."""

    reason = "InvalidConfig"


class Unexpected(OperatorError):
    """The operator has a bug that a service triggers."""


class InvalidSpec(OperatorError):
    """The service cannot be served as written.

    ``reason`` is one of KServe's model failure reasons: InvalidPredictorSpec, NoSupportingRuntime,
    RuntimeNotRecognized, RuntimeDisabled.
    """

    def __init__(self, message: str, reason: str = "InvalidPredictorSpec") -> None:
        super().__init__(message)
        self.reason = reason


class InvalidCredentials(InvalidSpec):
    """An object that the service's storage refers to is missing or invalid. No watch reports when it is corrected."""

    reason = "InvalidCredentials"

    def __init__(self, message: str) -> None:
        super().__init__(message, self.reason)


class InvalidCertificate(InvalidCredentials):
    """The Secret that the service's pods serve TLS with is missing or invalid."""

    reason = "InvalidCertificate"


@dataclass(frozen=True)
class Problem:
    """Why a service cannot be reconciled: the reason and the message of its conditions.

    ``is_transient``: it may pass without a change from outside.
    """

    reason: str
    message: str
    is_transient: bool = False

    @classmethod
    def of(cls, error: OperatorError) -> Problem:
        """The message is one line, whatever it quotes of the user or the API server."""
        return cls(error.reason, one_line(str(error), LOG_BYTES), error.is_transient)
