"""The rules of archives need nothing but the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import model_archive


def imported(module: Path) -> set[str]:
    """The first parts of all names that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(str(node.module).partition(".")[0])
    return names


def test_only_the_standard_library_is_imported() -> None:
    modules = sorted(Path(str(model_archive.__file__)).parent.glob("*.py"))
    foreign = {
        module.name: names
        for module in modules
        # For the type checker alone.
        if (names := imported(module) - sys.stdlib_module_names - {"model_archive", "_typeshed"})
    }

    assert (len(modules) > 5, foreign) == (True, {})
