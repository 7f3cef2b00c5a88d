"""What a message of several lines says, in one of them. Pure."""

from __future__ import annotations

import re
from typing import Final

_OF_POD: Final = re.compile(r"^pod [^\s,:]+(?:, container [^\s:]+)?:? ")
_TRACEBACK: Final = "Traceback (most recent call last)"
_CALL: Final = re.compile(r'^(\| )? *File ".+", line \d+', re.MULTILINE)  # of one whose beginning was cut off
_PLACE: Final = re.compile(r' *File "(?:.*/)?(?P<file>[^/"]+)", (?P<line>line \d+)')
_OF_SYNTAX: Final = ("SyntaxError: ", "IndentationError: ", "TabError: ")  # without the place, which others have
_MISSING: Final = re.compile(
    r"(?:\S*python[\d.]*: (?:Error while finding module specification for '[\w.]+' \()?)?"
    r"(?:ModuleNotFoundError: )?No module named '?(?P<module>[\w.]+)'?\)?"
)
_QUOTE: Final = "| "  # begins the further lines in a status
_RAISED: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Timeout)\b")


def brief(text: str) -> str:
    """Return what happens without the names of the pod and the container, which would hide it."""
    return _OF_POD.sub("", text, count=1)


def is_traceback(text: str) -> bool:
    """Whether a text is a traceback of Python and nothing before it, or the end of one."""
    before, begin, _ = text.partition(_TRACEBACK)
    return not before.strip() if begin else _CALL.search(text) is not None


def missing_module(line: str) -> str:
    """Return the module that Python has not found, as the last line of its output says; else nothing."""
    found = _MISSING.fullmatch(line)
    return found["module"] if found else ""


def headline(text: str) -> str:
    """Return the line that says what is wrong: of a traceback what was raised, else the first one.

    The place of a syntax error stands in another line, and comes behind it.
    """
    lines = [line.removeprefix(_QUOTE) for line in text.splitlines() if line.strip()] or [""]
    has_traceback = _TRACEBACK in text or is_traceback(text)
    raised = [number for number, line in enumerate(lines) if has_traceback and _RAISED.match(line)]
    number = raised[-1] if raised else 0
    following = lines[number + 1 : number + 2] if lines[number].rstrip().endswith(":") else []
    if lines[number].startswith(_OF_SYNTAX) and (places := list(filter(None, map(_PLACE.match, lines[:number])))):
        following = [f"({places[-1]['file']}, {places[-1]['line']})"]
    return " ".join(line.strip() for line in [lines[number], *following])
