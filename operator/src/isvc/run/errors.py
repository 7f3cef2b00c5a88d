"""The errors of ``isvc run`` and ``isvc render``; ``cli`` turns them into exit codes.

OperatorError
├── UnusableInput    a file or a flag is invalid (exit code 2)
├── RunFailed        a process or a request has failed (exit code 1)
└── Unserved         a service in a file cannot be served as written, an InvalidSpec (exit code 2)
Interrupted          Ctrl-C (exit code 130)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from isvc_operator.errors import InvalidSpec, OperatorError, Problem

if TYPE_CHECKING:
    from isvc_operator.api.inference_service import InferenceService


class UnusableInput(OperatorError):
    """A file or a flag is invalid; the message names it and what to change."""


def unusable_because(lines: Iterable[str]) -> UnusableInput:
    """Return an error of several lines, each as the first."""
    return UnusableInput("\nisvc: ".join(lines))


class RunFailed(OperatorError):
    """A process has failed, a port is in use, or a response is not the expected one.

    ``brief`` is what is left to say where the rest was printed already.
    """

    def __init__(self, message: str, brief: str = "") -> None:
        super().__init__(message)
        self.brief = brief or message


class Unserved(InvalidSpec):
    """A service in the files cannot be served as written; ``why`` is the message without its name."""

    def __init__(self, service: InferenceService, problem: Problem) -> None:
        super().__init__(f"{service.kind} {service.metadata.name}: {problem.message}", problem.reason)
        self.service = service
        self.why = problem.message


class Interrupted(Exception):
    """Ctrl-C has stopped the run."""
