"""The operator's errors. Each carries the condition reason that a user reads.

    OperatorError
    ├── ConfigError          the operator's own configuration cannot be used (exit code 2 at start)
    ├── InvalidSpec          the service cannot be served as written; waits for an edit
    │   └── InvalidCredentials   a secret that its storage refers to cannot be used; looked at again by itself
    ├── Unexpected           a fault of the operator's own; tried again
    └── kube.errors.KubeError    the API server refused or failed (kube/errors.py)

They become conditions in one place, ``reconcile``, and exit codes in one place, ``cli``.
"""

from __future__ import annotations


class OperatorError(Exception):
    """Root of the operator's errors."""

    reason = "ReconcileFailed"


class ConfigError(OperatorError):
    """A key of ``inferenceservice-config`` has a value that cannot be used."""

    reason = "InvalidConfig"


class Unexpected(OperatorError):
    """The operator has a fault that a service brings to light."""


class InvalidSpec(OperatorError):
    """The service cannot be served as written.

    ``reason`` is one of KServe's model failure reasons: InvalidPredictorSpec, NoSupportingRuntime,
    RuntimeNotRecognized, RuntimeDisabled.
    """

    def __init__(self, message: str, reason: str = "InvalidPredictorSpec") -> None:
        super().__init__(message)
        self.reason = reason


class InvalidCredentials(InvalidSpec):
    """What the service's storage refers to is not there or cannot be used. Nothing tells us of its mending."""

    reason = "InvalidCredentials"

    def __init__(self, message: str) -> None:
        super().__init__(message, self.reason)
