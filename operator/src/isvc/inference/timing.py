"""Where the time of a response went: the stages that its server names, and the rest. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

HEADER = "Server-Timing"
REST = "network"
_STAGE = re.compile(r"\s*([\w.-]{1,64})\s*;\s*dur=([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(?:;|$)")
_STAGES = 32

Stages = tuple[tuple[str, float], ...]


def stages_of(header: str) -> Stages:
    """Return the stages of a Server-Timing header in milliseconds; what is not written so is left out."""
    found = (_STAGE.match(part) for part in header.split(",", _STAGES)[:_STAGES])
    return tuple((match[1], float(match[2])) for match in found if match)


def parts_of(stages: Sequence[tuple[str, float]], milliseconds: float) -> Stages:
    """Return the stages, and what is left of the whole time for the network.

    There are none where the server names none, and where they are longer than the response took: they cannot be true.
    """
    rest = milliseconds - sum(duration for _, duration in stages)
    return (*stages, (REST, rest)) if stages and rest >= 0 else ()
