"""The nearest of several names or paths to one that does not exist. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher, get_close_matches

_NAME = re.compile(r"\{\w+\}")
_PARTS = re.compile("([/:])")
# Paths with the other protocol's verb, and what comes before this one's.
_VERBS = (
    (re.compile(r"(/v2/.+[/:])predict", re.IGNORECASE), "infer"),
    (re.compile(r"(/v1/.+[/:])infer", re.IGNORECASE), "predict"),
)
_MAX_PARTS = 20  # and what is between them: a path with more is like none
_ALIKE = 0.7  # of 1, which is the same


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the name that is most like another, whatever their case; empty if none is."""
    by_lower = {one.lower(): one for one in names if len(name) < 3 * len(one)}  # a longer one is like none
    return "".join(by_lower[found] for found in get_close_matches(name.lower(), by_lower, n=1)) if by_lower else ""


def nearest_path(path: str, templates: Iterable[str]) -> str:
    """Return the path that is most like another, of those that templates with one `{name}` or none describe.

    Empty if none is. The name may be any part of the path that is in no template.
    """
    for pattern, verb in _VERBS:
        if found_verb := pattern.fullmatch(path):
            path = found_verb[1] + verb
    shapes = list(dict.fromkeys(_NAME.sub("{}", template) for template in templates))
    words = {word for shape in shapes for word in _PARTS.split(shape)}
    longest = max(map(len, shapes), default=0)
    best, found = _ALIKE, ""
    for shape, name in _shapes(path, words):
        if len(shape) > 2 * longest:  # it is like none, and to look would take long
            continue
        matcher = SequenceMatcher(b=shape)
        for one in shapes:
            if one.count("{") == bool(name) and abs(len(_PARTS.split(one)) - len(_PARTS.split(shape))) <= 2:
                matcher.set_seq1(one)
                if (ratio := matcher.ratio()) > best:
                    best, found = ratio, one.replace("{}", name)
    return found


def _shapes(path: str, words: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the path, and with `{}` for each part that may be a name, and that name."""
    parts = _PARTS.split(path)
    if len(parts) > _MAX_PARTS:
        return
    yield path, ""
    for place, part in enumerate(parts):
        if part and part not in words:
            yield "".join((*parts[:place], "{}", *parts[place + 1 :])), part
