"""No modules import each other, neither for types only nor inside functions."""

from __future__ import annotations

import graphlib
import importlib
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
PACKAGES = SETTINGS["importlinter"]["root_packages"]


def cycle(packages: Sequence[str]) -> list[str]:
    """Return one cycle among the modules of the packages; empty where there is none."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in SETTINGS["mypy"]["mypy_path"]:
        monkeypatch.syspath_prepend(ROOT / folder)

    assert cycle(PACKAGES) == []


@pytest.mark.parametrize(
    "text",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from of_cycles.b import B\n",
        "def late():\n    from of_cycles.b import B\n",
    ],
    ids=["for types only", "inside a function"],
)
def test_a_cycle_is_found(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "of_cycles"
    package.mkdir()
    for name, content in {"__init__": "", "a": text, "b": "import of_cycles.a\n"}.items():
        (package / f"{name}.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "of_cycles", raising=False)
    importlib.invalidate_caches()

    assert set(cycle(["of_cycles"])) == {"of_cycles.a", "of_cycles.b"}
