"""Why a text is not YAML, for those who have mistyped something: what is wrong in a line, what to write. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import yaml

_INDENT: Final = re.compile(r"( *)((?:- +)*)")
_FIELD: Final = re.compile(r"[^\s:]+:(\s|$)")
_TEMPLATE: Final = re.compile(r"(?:^|[\s:-])\{[{%]")  # of Helm or Jinja, where YAML would begin an object
_CHARACTER: Final = re.compile(r"found character '(.+)' that cannot start any token")


def explained(error: yaml.MarkedYAMLError, content: str) -> str:
    """Return what is wrong in the error's line and what to write, or else the parser's own words."""
    mark, problem, lines = error.problem_mark, error.problem or "", content.splitlines()
    if mark is None:
        return problem
    line = lines[mark.line] if mark.line < len(lines) else ""
    if _TEMPLATE.search(line):
        return "the line is of a template, with {{ … }} or {% … %}; render it first, such as by helm template"
    began = error.context_mark.line + 1 if error.context_mark else 0
    if found := _CHARACTER.match(problem):
        return _of_character(found[1], line.strip())
    if "flow" in (error.context or "") and "<stream end>" in problem:
        which = f"the list or object that begins in line {began}" if began <= mark.line else "a list or object"
        return f"{which} is not closed; write its ] or }} at its end"
    if began and "quoted scalar" in (error.context or ""):
        return f"the quote that opens in line {began} is not closed; write another one where its text ends"
    if "could not find expected ':'" in problem:
        return f"line {began} has no colon; write NAME: VALUE, with a space after the colon"
    if problem == "mapping values are not allowed here":
        return _of_colon(lines, mark.line, mark.column)
    if problem.startswith("expected <block end>"):
        return _of_indent(lines, mark.line, mark.column)
    if problem.startswith("found undefined alias"):
        return "a value that begins with * refers to an anchor, and there is none; write it in quotes"
    return problem


def _of_character(character: str, line: str) -> str:
    if character == "\\t":
        return "the line is indented by a tab; write spaces instead"
    return f'a value cannot begin with {character}; write it in quotes: {line.partition(character)[0]}"{character}…"'


def _of_colon(lines: Sequence[str], number: int, column: int) -> str:
    line = lines[number]
    if _FIELD.search(line[:column]):
        name, _, value = line.strip().partition(": ")
        return f'a value that contains a colon and a space needs quotes; write {name}: "{value}"'
    above, before = next(_above(lines, number), (number, line))
    if not _FIELD.search(before):
        return f"line {above + 1} ends without a colon; write {before.strip()}:"
    return (
        f"the line is indented deeper than line {above + 1}, which has a value already; {_write(_open(lines, number))}"
    )


def _of_indent(lines: Sequence[str], number: int, column: int) -> str:
    own, known = _indents(lines[number])[0] if number < len(lines) else 0, _open(lines, number)
    if column > own:
        return "a text follows a value in quotes; write all of it in the quotes, or remove it"
    near = [next((it for it in known if it[0] < own), None), next((it for it in reversed(known) if it[0] > own), None)]
    choices = [it for it in near if it]
    if any(it[0] == own for it in known) or not choices:
        return "fields and items with a dash cannot stand beside each other; indent this line otherwise"
    return f"the line is indented by {_spaces(own)}, as no line above it; {_write(choices[::-1])}"


def _write(choices: Sequence[tuple[int, int]]) -> str:
    return "write " + ", or ".join(f"{_spaces(indent)}, as in line {number + 1}" for indent, number in choices)


def _spaces(count: int) -> str:
    return "1 space" if count == 1 else f"{count} spaces"


def _open(lines: Sequence[str], number: int) -> list[tuple[int, int]]:
    """Return the indents that a line may have, the deepest first, each with a line that has it."""
    found: list[tuple[int, int]] = []
    for above, line in _above(lines, number):
        found += [(indent, above) for indent in reversed(_indents(line)) if not found or indent < found[-1][0]]
    return found


def _above(lines: Sequence[str], number: int) -> Iterator[tuple[int, str]]:
    for above in range(number - 1, -1, -1):
        text = lines[above].strip()
        if text.startswith(("---", "...")):
            return
        if text and not text.startswith("#"):
            yield above, lines[above]


def _indents(line: str) -> list[int]:
    """Return the indents of a line: that of its dash, if it has one, and that of its text."""
    found = _INDENT.match(line)
    return sorted({len(found[1]), len(found[0])}) if found else [0]
