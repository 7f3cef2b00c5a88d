"""Tests that tables and pages name, as `path::function`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from tests.support.source_tree import ROOT


def missing(tests: Iterable[str]) -> list[str]:
    """Those that are not there."""
    return sorted({test for test in tests if test not in _defined(test.partition("::")[0])})


@functools.cache
def _defined(path: str) -> frozenset[str]:
    names = re.findall(r"^ *(?:async )?def (\w+)\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(f"{path}::{name}" for name in names)
