"""Errors of the commands that show services."""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class NoSuchService(OperatorError):
    """There is no InferenceService of the name."""
