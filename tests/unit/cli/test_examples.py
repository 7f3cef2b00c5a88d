"""Every `isvc` command line in the docs is one that `isvc` understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from isvc.commands import isvc

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/**/*.md")])
_BLOCK = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ELLIPSIS = "…"


def examples() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                if "isvc " in line:
                    yield from ((str(page.relative_to(ROOT)), words) for words in _commands(line.removeprefix("$ ")))


def _commands(line: str) -> Iterator[list[str]]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # goes on in the next line
        return
    while words:
        ends = [number for number, word in enumerate(words) if word in ("|", "&&", ";", ">", ">>", "2>")]
        command, words = (words[: ends[0]], words[ends[0] + 1 :]) if ends else (words, [])
        while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):
            command = command[1:]
        if command[:1] in (["isvc"], [".venv/bin/isvc"]) and _ELLIPSIS not in command:
            yield [word for word in command[1:] if word != "&"]


@pytest.mark.parametrize(
    ("page", "arguments"), list(examples()), ids=lambda value: value if isinstance(value, str) else None
)
def test_an_example_is_understood(page: str, arguments: list[str]) -> None:
    context, command = click.Context(isvc, info_name="isvc", **isvc.context_settings), isvc
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        name, found, arguments = command.resolve_command(context, arguments)
        assert found, page
        command, context = found, click.Context(found, info_name=name, parent=context)
    with suppress(click.exceptions.Exit):  # --help and --version
        command.make_context(context.info_name, list(arguments), parent=context.parent)
