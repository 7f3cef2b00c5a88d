"""What commands print: text for people, or JSON and YAML of a stable shape for programs.

On a terminal, Rich lays out tables and adds colour, unless NO_COLOR is set or Rich is not installed. Elsewhere the same
text is plain. Texts come from clusters and logs, so none is ever read as markup, and control characters are escaped.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from isvc_operator.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# What JSON and YAML are made from: keys in camelCase, as Kubernetes has them.
Plain = Mapping[str, Any] | Sequence[Any]


class OutputFormat(StrEnum):
    """The values of ``--output``."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


class Style(StrEnum):
    """How a text stands out on a terminal; the values are Rich's."""

    OK = "green"
    WARNING = "yellow"
    ERROR = "bold red"
    FAINT = "dim"
    STRONG = "bold"


@dataclass(frozen=True)
class Styled:
    """A text that stands out on a terminal."""

    text: str
    style: Style


Cell = str | Styled
_DELETE: Final = "\\u007f"
_GAP: Final = "   "  # between columns
_LEAST_FOLDED: Final = 20  # characters of a folded column


def output_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--output``; the command gets an Output."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice([output.value for output in OutputFormat]),
        callback=lambda _context, _option, value: OutputFormat(value),
        default=OutputFormat.TEXT.value,
        help="text for people, json or yaml for programs (default: text)",
    )(command)


def write_data(data: Plain, output: OutputFormat) -> None:
    """Print JSON or YAML. Letters of any script are printed as they are, but not beside what a terminal would obey."""
    text = _document(data, output, is_ascii=False)
    if not text.replace("\n", "").isprintable():
        text = _document(data, output, is_ascii=True).replace("\x7f", "\\u007f")
    sys.stdout.write(text)
    sys.stdout.flush()


def write_record(data: Plain, output: OutputFormat) -> None:
    """Print data as one line of JSON or one of several documents of YAML, for output that goes on.

    Characters that a terminal would obey are escaped.
    """
    if output is OutputFormat.YAML:
        sys.stdout.write("---\n")
        write_data(data, output)
        return
    text = json.dumps(data, ensure_ascii=False)
    sys.stdout.write(f"{text if text.isprintable() else json.dumps(data).replace(chr(127), _DELETE)}\n")
    sys.stdout.flush()


def _document(data: Plain, output: OutputFormat, *, is_ascii: bool) -> str:
    if output is OutputFormat.YAML:
        import yaml

        from isvc.yaml_text import Dumper

        return str(yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=not is_ascii))
    return f"{json.dumps(data, indent=2, ensure_ascii=is_ascii)}\n"


def write_line(*cells: Cell, stream: TextIO | None = None) -> None:
    """Print one line of the cells, with a space between them."""
    stream = stream or sys.stdout
    if console := _console(stream):
        from rich.text import Text

        console.print(Text(" ").join(_rich(cell) for cell in cells), soft_wrap=True)
    else:
        stream.write(f"{' '.join(map(_plain, cells))}\n")
        stream.flush()


def write_table(header: Sequence[str], rows: Sequence[Sequence[Cell]], stream: TextIO | None = None) -> None:
    """Print rows below a header, their columns aligned, as ``kubectl get`` does.

    On a terminal that is too narrow, the last column is folded; where that has no room, each row is lines of its own.
    No cell is cut.
    """
    stream = stream or sys.stdout
    if console := _console(stream):
        _write_on_terminal(console, header, rows)
        return
    lines = [list(header), *([_plain(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = _GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        stream.write(f"{padded.rstrip()}\n")
    stream.flush()


def _write_on_terminal(console: Console, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich.table import Table

    columns = zip(header, *rows, strict=True)
    *fixed, _ = (max(len(line) for cell in column for line in _plain(cell).splitlines() or [""]) for column in columns)
    left = console.width - sum(fixed) - len(_GAP) * len(fixed)
    if len(header) > 2 and left < min(_LEAST_FOLDED, max(len(_plain(row[-1])) for row in (header, *rows))):
        for index, row in enumerate(rows):
            if index:
                console.print()
            _write_on_terminal(console, (header[0], _plain(row[0])), [*zip(header[1:], row[1:], strict=True)])
        return
    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style=Style.STRONG)
    for name in header[:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(header[-1], overflow="fold")
    for row in rows:
        table.add_row(*map(_rich, row))
    console.print(table)


def stderr_note(text: str) -> None:
    """Say on stderr what people should know beside the output."""
    sys.stderr.write(f"isvc: note: {visible(text)}\n")


@contextmanager
def live_lines() -> Iterator[Callable[[Sequence[Sequence[Cell]]], None] | None]:
    """Yield what shows lines in place of those before on a terminal; None elsewhere.

    What does not fit onto the terminal is left out, at the end of a line and at the end of all lines.
    """
    console = _console(sys.stdout)
    if console is None:
        yield None
        return
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    def shown(lines: Sequence[Sequence[Cell]]) -> Group:
        texts = [Text(" ", no_wrap=True, overflow="ellipsis").join(map(_rich, line)) for line in lines]
        return Group(*texts)

    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        yield lambda lines: live.update(shown(lines), refresh=True)


def aligned(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    """Return the lines of a table, their cells padded to the width of their columns."""
    lines: list[list[Cell]] = [[Styled(name, Style.STRONG) for name in header], *map(list, rows)]
    widths = [max(len(_plain(cell)) for cell in column) for column in zip(*lines, strict=True)]
    return [[_padded(cell, width + 2) for cell, width in zip(line, widths, strict=True)] for line in lines]


def _padded(cell: Cell, width: int) -> Cell:
    text = _plain(cell).replace("\n", " ").ljust(width)
    return Styled(text, cell.style) if isinstance(cell, Styled) else text


def _console(stream: TextIO) -> Console | None:
    """Return Rich's console for a terminal, if colour is wanted there."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream, markup=False, emoji=False, highlight=False)


def _rich(cell: Cell) -> Text:
    from rich.text import Text

    return Text(_plain(cell), style=cell.style.value if isinstance(cell, Styled) else "")


def _plain(cell: Cell) -> str:
    return visible(cell.text if isinstance(cell, Styled) else cell)
