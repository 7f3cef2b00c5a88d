"""Text for people, plain or on a terminal; JSON and YAML for programs; hostile texts are only ever text."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import yaml

from isvc.commands.output import OutputFormat, Style, Styled, write_data, write_line, write_record, write_table

HOSTILE = "[red]x[/red] :smile: \x1b[2J\x1b]8;;http://a\x07 \u202e"
SHOWN = r"[red]x[/red] :smile: \x1b[2J\x1b]8;;http://a\x07 \u202e"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Iterator[None]:
    with monkeypatch.context() as patched:
        for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"):
            patched.delenv(name, raising=False)
        for name, value in {"TERM": "xterm", "COLUMNS": "200", **variables}.items():
            patched.setenv(name, value)
        yield


def test_a_table_is_plain_where_nobody_looks() -> None:
    stream = io.StringIO()

    write_table(["NAME", "READY"], [["bert", Styled("True", Style.OK)], ["a-longer-name", HOSTILE]], stream)

    assert stream.getvalue() == f"NAME            READY\nbert            True\na-longer-name   {SHOWN}\n"


def test_a_table_on_a_terminal_has_the_same_text_with_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    with environment(monkeypatch):
        write_table(["NAME", "READY"], [["bert", Styled("True", Style.OK)], ["other", HOSTILE]], stream)

    assert "\x1b[32mTrue" in stream.getvalue()
    assert SHOWN in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()


HEADER = ["ARCHIVE", "MODEL", "SIZE", "REQUIREMENTS"]
ROWS = [["a.mar", "bert", "510.1 KiB", "transformers==4.50.0, tokenizers"], ["other.mar", "other", "1.2 GiB", "none"]]


@pytest.mark.parametrize("width", [200, 120, 80, 60, 30])
def test_no_cell_is_cut_where_the_terminal_is_narrow(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    stream = Terminal()
    with environment(monkeypatch, COLUMNS=str(width)):
        write_table(HEADER, ROWS, stream)

    lines = re.sub(r"\x1b\[[\d;]*m", "", stream.getvalue()).splitlines()
    printed = " ".join(" ".join(lines).split())
    assert {name: printed.count(name) for name in ("510.1 KiB", "1.2 GiB", "ARCHIVE")} == {
        "510.1 KiB": 1, "1.2 GiB": 1, "ARCHIVE": 1 if width > 30 else 2
    }  # fmt: skip
    assert "…" not in printed
    assert "transformers==4.50.0,tokenizers" in "".join(printed.split())
    assert max(map(len, lines)) <= width


def test_a_line_on_a_terminal_is_coloured_and_never_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    with environment(monkeypatch):
        write_line(Styled("ok", Style.OK), HOSTILE, stream=stream)

    assert stream.getvalue() == f"\x1b[32mok\x1b[0m {SHOWN}\n"


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_without_colour_a_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    stream = Terminal()
    with environment(monkeypatch, **variables):
        write_line(Styled("ok", Style.OK), "bert", stream=stream)

    assert stream.getvalue() == "ok bert\n"


def test_without_rich_a_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    with environment(monkeypatch):
        monkeypatch.setitem(sys.modules, "rich.console", None)
        write_line(Styled("ok", Style.OK), "bert", stream=stream)

    assert stream.getvalue() == "ok bert\n"


@pytest.mark.parametrize(("output", "parse"), [(OutputFormat.JSON, json.loads), (OutputFormat.YAML, yaml.safe_load)])
def test_data_comes_back_as_it_was(
    output: OutputFormat, parse: Callable[[str], object], capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"name": HOSTILE, "isReady": True, "items": [1, None]}

    write_data(data, output)

    assert parse(capsys.readouterr().out) == data


def test_a_record_is_one_line_that_no_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    write_record({"text": f"{HOSTILE}\n\x7f"}, OutputFormat.JSON)

    (line,) = capsys.readouterr().out.splitlines()
    assert line.isprintable()
    assert json.loads(line) == {"text": f"{HOSTILE}\n\x7f"}
