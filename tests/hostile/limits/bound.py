"""One bound, as docs/limits.md lists it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Unit(Enum):
    """What a bound counts."""

    BYTES = "bytes"
    COUNT = "count"
    SECONDS = "seconds"
    TIMES = "times"  # a ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A row of docs/limits.md.

    `constant` is the module and name that hold the default: `data_plane.limits:MAX_HEAD`.
    `setting` is the flag, variable or key that changes it; empty where nothing does.
    `beyond` is what the client, or the owner of the service, gets.
    `test` is the test that goes beyond the bound: `tests/…/test_x.py::test_y`.
    """

    what: str
    constant: str
    unit: Unit
    setting: str = ""
    beyond: str
    test: str
