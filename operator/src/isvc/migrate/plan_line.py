"""A line of the plan, and what it means for the change-over. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """What a line of the plan means: nothing to do, something to know, or a reason not to begin."""

    OK = "ok"
    WARNING = "warning"
    BLOCKING = "blocking"


@dataclass(frozen=True)
class PlanLine:
    """A line of the plan."""

    level: Level
    text: str


def ok(text: str) -> PlanLine:
    """Return a change that needs no attention."""
    return PlanLine(Level.OK, text)


def warning(text: str) -> PlanLine:
    """Return something that its owner should know before."""
    return PlanLine(Level.WARNING, text)


def blocking(text: str) -> PlanLine:
    """Return a reason not to change over."""
    return PlanLine(Level.BLOCKING, text)
