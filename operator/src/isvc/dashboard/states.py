"""How a service is, in one state, one line and one fix: what the list and the head of each page say of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from isvc.view.diagnosis import NOT_PROCESSED, diagnose, gist, log_tail
from isvc.view.fixes import SEE_MESSAGE, fix_for
from isvc.view.headlines import brief, headline
from isvc.view.values import (
    OLDER_SERVE,
    ROLLING_OUT,
    ComponentView,
    Failure,
    HealthStatus,
    PodView,
    ServiceView,
)

_PLACE = re.compile(r"pod ([^\s,]+), container (\S+)")
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python|^<")
_FIXES = {NOT_PROCESSED: "if it stays, isvc doctor says whether an operator runs"}
_EMPTY_ADVICE = (SEE_MESSAGE, fix_for("ServerFailed"))  # the message is what they are shown beside


class ShownState(Enum):
    """How a service is, in the order of the list: what needs somebody, what goes on, what is quiet."""

    FAILED = "Failed"
    UNPROCESSED = "Not processed"
    ROLLING = ROLLING_OUT
    STARTING = "Starting"
    TERMINATING = "Terminating"
    READY = "Ready"
    STOPPED = "Stopped"

    @property
    def rank(self) -> int:
        """Its place in the list."""
        return [*ShownState].index(self)


@dataclass(frozen=True, kw_only=True)
class ShownCause:
    """Why something is as it is: ``line`` is what matters of ``text``, and ``log`` what that does not repeat.

    ``raised_at`` is the place in the user's code, and empty if that is not known.
    """

    reason: str
    line: str
    text: str = ""
    fix: str = ""
    location: str = ""
    raised_at: str = ""
    exit_code: int | None = None
    log: str = ""

    @property
    def container(self) -> tuple[str, str] | None:
        """Return the pod and the container whose log has more."""
        found = _PLACE.search(self.location)
        return (found[1], found[2]) if found else None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The state of a service, and why it is so; a service that serves may have no cause, or a warning."""

    state: ShownState
    cause: ShownCause | None = None


def summary_of(service: ServiceView) -> Summary:
    """Return what is said of a service."""
    finding = next(iter(diagnose(service).findings), None)
    if service.health is HealthStatus.STARTING and not service.conditions:
        state = ShownState.UNPROCESSED
    elif service.is_rolling:
        return Summary(state=ShownState.ROLLING, cause=ShownCause(reason="", line=service.rollout))
    else:
        state = ShownState[service.health.name]
    cause = cause_of(finding) if finding else None
    if cause and cause.reason == state.value.title().replace(" ", ""):
        cause = replace(cause, reason="")  # the state says it
    if cause and any(item.fails_beside_older for item in service.components):
        cause = replace(cause, line=f"{OLDER_SERVE}: {cause.line}", text=cause.text or cause.line)
    return Summary(state=state, cause=cause)


def cause_of(failure: Failure) -> ShownCause:
    """Return a failure as it is shown."""
    text = brief(failure.cause)
    line = headline(text)
    fix = _FIXES.get(failure.reason, failure.fix)
    return ShownCause(
        reason=failure.reason,
        line=line,
        text=text if text.strip() != line else "",
        fix="" if fix in _EMPTY_ADVICE else fix,
        location=failure.location,
        raised_at=raised_at(text),
        exit_code=failure.exit_code,
        log=log_tail(failure),
    )


def told_once(service: ServiceView) -> Mapping[str, ShownCause]:
    """Return the failures of components and pods by their names, without those that were shown before."""
    told = {gist(service.failure)} if service.failure else set()
    found: dict[str, ShownCause] = {}
    for component in service.components:
        items: list[ComponentView | PodView] = [component, *component.pods]
        for item in items:
            if item.failure and gist(item.failure) not in told:
                told.add(gist(item.failure))
                found[item.name] = cause_of(item.failure)
    return found


def raised_at(text: str) -> str:
    """Return the last place of a traceback that is in no installed package."""
    own = [found for found in _FRAME.finditer(text) if not _INSTALLED.search(found[1])]
    return f"{own[-1][1].rpartition('/')[2]}, line {own[-1][2]}" if own else ""
