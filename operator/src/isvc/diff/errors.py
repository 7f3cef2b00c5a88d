"""Why there is no answer. ``cli`` turns it into exit code 2, as 1 means that there are differences."""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class DiffFailed(OperatorError):
    """A file is invalid, the API server would refuse it or does not respond, or a service could not be served."""
