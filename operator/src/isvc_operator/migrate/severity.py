"""What a finding means for the change-over, and how it is printed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """What a line of the plan means: nothing to do, something to know, or a reason not to begin."""

    OK = "ok"
    WARNING = "warning"
    BLOCKING = "blocking"


@dataclass(frozen=True)
class Finding:
    """A line of the plan."""

    severity: Severity
    text: str


def ok(text: str) -> Finding:
    """Return a change that needs no attention."""
    return Finding(Severity.OK, text)


def warning(text: str) -> Finding:
    """Return something that its owner should know before."""
    return Finding(Severity.WARNING, text)


def blocking(text: str) -> Finding:
    """Return a reason not to change over."""
    return Finding(Severity.BLOCKING, text)
