"""docs/limits.md, generated from the rows of the modules here and the values in the code.

To add a bound: put the constant into the `limits.py` of its package, a row into its module here, and run
`python -m tests.hostile`. `test_page.py` fails while one of the three is missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import tomllib
from collections.abc import Iterator

from tests.hostile.limits import (
    archives,
    command_line,
    data_plane,
    mar_runtime,
    operator,
    sdk,
    storage,
    torchserve_adapter,
)
from tests.hostile.limits.bound import Bound, Unit
from tests.support.runtimes import ROOT

PAGE = ROOT / "docs/limits.md"
# Those whose module `limits`, if they have one, holds bounds.
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["root_packages"]
_ROOMS = (
    ("The data plane: both runtimes and the SDK", data_plane.BOUNDS),
    ("`isvc-mar`", mar_runtime.BOUNDS),
    ("`kserve-torchserve`", torchserve_adapter.BOUNDS),
    ("The SDK for transformers", sdk.BOUNDS),
    ("Model archives: the storage-initializer and both runtimes", archives.BOUNDS),
    ("The storage-initializer", storage.BOUNDS),
    ("The operator", operator.BOUNDS),
    ("`isvc` and the dashboard", command_line.BOUNDS),
)
ALL = tuple(bound for _, bounds in _ROOMS for bound in bounds)
_HEAD = """\
# Limits

Everything that comes from outside has a limit: a request, an archive, a service's YAML. This page lists each limit, its
default, how to change it, and what happens beyond it.

`python -m tests.hostile` generates this page from the values in the code, and a test checks that it is up to date. Each
row names the test that exceeds its limit.
"""
_COLUMNS = ("what", "default", "change it with", "beyond it", "test")


def render() -> str:
    """Return the whole page."""
    sections = [_section(title, bounds) for title, bounds in _ROOMS if bounds]
    return "\n".join([_HEAD, *sections])


def value(bound: Bound) -> float | None:
    """Return the default, read from the code; None is derived from another value, which `setting` names."""
    module, _, name = bound.constant.partition(":")
    found: float | None = getattr(importlib.import_module(module), name)
    return found


def constants() -> Iterator[str]:
    """Return every public constant of the packages' modules `limits`, as `module:NAME`."""
    for package in PACKAGES:
        if importlib.util.find_spec(f"{package}.limits"):
            module = importlib.import_module(f"{package}.limits")
            yield from (f"{module.__name__}:{name}" for name in vars(module) if name.isupper())


def _section(title: str, bounds: tuple[Bound, ...]) -> str:
    rows = [
        (bound.what, _text(value(bound), bound.unit), bound.setting or "–", bound.beyond, f"`{bound.test}`")
        for bound in bounds
    ]
    lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *map(_line, rows)]
    return "\n".join([f"## {title}", "", *lines, ""])


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _text(number: float | None, unit: Unit) -> str:
    if number is None:
        return "derived"
    match unit:
        case Unit.BYTES:
            return _size(int(number))
        case Unit.SECONDS:
            return f"{number:g} s"
        case Unit.TIMES:
            return f"{number:g} ×"
        case Unit.COUNT:
            return f"{number:,}"


def _size(size: int) -> str:
    for factor, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {name}"
    return f"{size:,} bytes"
