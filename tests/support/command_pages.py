"""`python -m tests.support.command_pages [--check]`: write docs/commands from the commands' help and goldens."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from isvc.commands import isvc
from isvc.commands.exit_codes import MEANINGS
from tests.support.output_goldens import FOLDER as GOLDENS

FOLDER = Path(__file__).parents[2] / "docs" / "commands"
COMMAND = "python -m tests.support.command_pages"
_WIDTH = 100  # characters
_MADE = f"<!-- Written by `{COMMAND}` from the commands' help. Do not edit. -->"

HEAD = f"""# Commands

{_MADE}

`isvc --help` lists the commands, and `isvc COMMAND --help` explains one. `isvc completion bash` (or `zsh`, `fish`)
prints the script that completes commands and options in your shell.

| command | what it does |
|---|---|
"""
EXIT_CODES = """
## Exit codes

All commands use the same exit codes. An error is one line on stderr, with the problem, its place and the fix. For the
JSON and YAML that commands print, see [output](output.md).

| exit code | meaning |
|---|---|
"""

OUTPUT = f"""# Output for programs

<!-- Written by `{COMMAND}` from tests/golden/output. Do not edit. -->

`--output json` or `--output yaml` (`-o`) prints one document on stdout in place of text. Both have the same values, and
a stable shape:

- Within a major version, fields may be added, but no field is renamed or removed or gets another type. Ignore unknown
  fields.
- Lists are always present, and may be empty. A single unknown value is `null` or left out.
- Texts such as `text`, `message`, `cause` and `fix` are for people, and may change. In scripts, use the other fields
  and the [exit code](README.md#exit-codes).
- With exit code 2 (a file, a flag or a setting is invalid), commands print a line on stderr and no document. Only
  `isvc validate` and `isvc migrate plan` (or `apply`, if something is blocking) print a document with the problems.
  With exit code 1, there is no document if no cluster responds or the service does not exist; only `isvc doctor` prints
  one if no cluster responds.
- `isvc logs` and `isvc status --watch` print a line of JSON, or a document of YAML, for each line of a log or change of
  a service; a deleted service has `namespace`, `name` and `deleted`, and one of `isvc run` the run's URL as `run`.
  `isvc migrate apply` and `back` print one for each step that they report.
- `isvc run`, `dashboard`, `operator`, `completion`, `help` and `version` have no such flag: they print a log, an
  address, a script or a text.

Each document below is one that the tests compare with what the command prints.
"""
# The goldens that the page shows, and the command that prints each.
SHOWN = {
    "status": "isvc status -o json",
    "status-name": "isvc status NAME -o json",
    "diagnose": "isvc diagnose NAME -o json",
    "logs": "isvc logs NAME -o json",
    "validate": "isvc validate FILE -o json",
    "render": "isvc render FILE -o json",
    "diff": "isvc diff FILE -o json",
    "doctor": "isvc doctor -o json",
    "predict": "isvc predict NAME -d DATA -o json",
    "bench": "isvc bench URL -o json",
    "inspect": "isvc inspect SOURCE -o json",
    "pack": "isvc pack FOLDER -o json",
    "new": "isvc new transformer NAME -o json",
    "migrate-plan": "isvc migrate plan -o json",
    "migrate-back": "isvc migrate back -o json",
}
RENDERED = "The objects are whole; here are only their names. As YAML they are documents, not a list.\n\n"


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    context = _context(isvc, "isvc")
    commands = {name: isvc.get_command(context, name) for name in isvc.list_commands(context)}
    found = {name: command for name, command in commands.items() if command}
    rows = (f"| [`isvc {name}`]({name}.md) | {command.get_short_help_str(200)} |\n" for name, command in found.items())
    codes = (f"| {code} | {meaning} |\n" for code, meaning in MEANINGS.items())
    return {
        "README.md": "".join([HEAD, *rows, EXIT_CODES, *codes]),
        "output.md": "".join([OUTPUT, *(_shape(name, command) for name, command in SHOWN.items())]),
        **{f"{name}.md": _page(command, _context(command, name, context)) for name, command in found.items()},
    }


def _shape(name: str, command: str) -> str:
    """Return the section of a golden."""
    text, note = (GOLDENS / f"{name}.json").read_text(encoding="utf-8").strip(), ""
    if name == "render":
        text, note = json.dumps(_names_in(json.loads(text)), indent=2), RENDERED
    return f"\n## `{command}`\n\n{note}```json\n{text}\n```\n"


def _names_in(listed: dict[str, Any]) -> dict[str, Any]:
    items = [
        {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": {"name": item["metadata"]["name"]}}
        for item in listed["items"]
    ]
    return {**listed, "items": items}


def _page(command: click.Command, context: click.Context) -> str:
    return "\n".join([f"# `{context.command_path}`", "", _MADE, *_sections(command, context)])


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """Return the help of the command, and that of each command below it."""
    yield from ("", "```text", command.get_help(context), "```", "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if below := command.get_command(context, name):
                inner = _context(below, name, context)
                yield f"## `{inner.command_path}`"
                yield from _sections(below, inner)


def _context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    settings = {**isvc.context_settings, **command.context_settings}
    settings |= {"terminal_width": _WIDTH, "max_content_width": _WIDTH}
    return click.Context(command, parent=parent, info_name=name, **settings)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    made = pages()
    if not parser.parse_args(arguments).check:
        FOLDER.mkdir(exist_ok=True)
        for stale in {path.name for path in FOLDER.iterdir()} - set(made):
            (FOLDER / stale).unlink()
        for name, text in made.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
        return 0
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    if written == made:
        return 0
    sys.stderr.write(f"docs/commands is stale; run: {COMMAND}\n")
    for name in sorted({*written, *made}):
        before, after = (pages.get(name, "").splitlines(keepends=True) for pages in (written, made))
        sys.stderr.writelines(difflib.unified_diff(before, after, f"{name} as written", f"{name} from the help"))
    return 1


if __name__ == "__main__":
    sys.exit(main())
