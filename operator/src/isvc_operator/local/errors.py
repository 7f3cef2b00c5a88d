"""The errors of ``isvc run`` and ``isvc render``; ``cli`` turns them into exit codes.

OperatorError
├── UnusableInput    a file or a flag is invalid (exit code 2)
└── RunFailed        a process or a request has failed (exit code 1)
"""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class UnusableInput(OperatorError):
    """A file or a flag is invalid; the message names it and what to change."""


class RunFailed(OperatorError):
    """A process has failed, a port is in use, or a response is not the expected one."""
