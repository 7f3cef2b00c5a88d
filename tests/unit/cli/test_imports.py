"""Help imports Click and the commands' own modules, and nothing that takes long."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import isvc_operator
from isvc.commands import COMMANDS

OPERATOR = Path(isvc_operator.__file__).parent

# Prints what was imported for a command line beyond what the interpreter had, and what it needs for itself.
_SCRIPT = """
import json, sys
before = set(sys.modules)
from isvc.commands import main
code = main(sys.argv[1:])
print("\\n" + json.dumps([code, sorted(set(sys.modules) - before)]))
"""
_LIGHT = re.compile(
    r"isvc(\.(commands(\..+)?|limits|\w+\.errors))?|isvc_operator(\.(command|limits|text|(\w+\.)?errors))?|click(\..+)?"
)
_ROOM = re.compile(r"isvc(_operator)?\.\w+")  # its __init__, which has a docstring alone
_SLOW = {
    "asyncio",
    "http.client",
    "logging",
    "socket",
    "ssl",
    "subprocess",
    "importlib.metadata",
    "importlib.resources",
}


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments", [[], *([name] for name in COMMANDS)], ids=lambda given: " ".join(["isvc", *given])
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments, "--help"], capture_output=True, text=True, check=True
    ).stdout
    code, imported = json.loads(printed.splitlines()[-1])

    rooms = {name for name in imported if _ROOM.fullmatch(name) and not _is_file(name)}
    theirs = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    assert code == 0
    assert _SLOW & {*imported} == set()
    assert {name for name in theirs - rooms if not _LIGHT.fullmatch(name)} == set()


def _is_file(module: str) -> bool:
    return (OPERATOR.parent / f"{module.replace('.', '/')}.py").is_file()
