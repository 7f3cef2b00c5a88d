"""Why services of a cluster cannot be seen, or not be reached."""

from __future__ import annotations

from isvc_operator.errors import OperatorError

NOT_INSTALLED = "the cluster has no InferenceServices: install the operator, or KServe's CRDs, first"


class NotSeen(OperatorError):
    """Something of a cluster cannot be seen."""


class NotInstalled(NotSeen):
    """The cluster has no InferenceServices."""


class NotReachable(NotSeen):
    """The service has no place to send a request to."""
