"""What can go wrong on the laptop; both become exit codes in ``cli``.

OperatorError
├── UnusableInput    a file or a flag cannot be used as it is (exit code 2)
└── RunFailed        what was started did not do what it should (exit code 1)
"""

from __future__ import annotations

from isvc_operator.errors import OperatorError


class UnusableInput(OperatorError):
    """A file or a flag cannot be used; the message says which one and what to change."""


class RunFailed(OperatorError):
    """A process failed, a port is taken, or an answer is not the one that was expected."""
