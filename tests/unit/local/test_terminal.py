"""What a run prints on a terminal: colours and bars, and no text that acts."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TextIO

import pytest

from isvc.run import output as module
from isvc.run.output import Output, PlainOutput, TerminalOutput, new_output

INITIALIZER = "first/storage-initializer"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> tuple[TerminalOutput, io.StringIO, io.StringIO]:
    """An output, what it prints on stderr, and on stdout; both are terminals to Rich."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    stderr, stdout = io.StringIO(), io.StringIO()
    return TerminalOutput(stderr, stdout), stderr, stdout


def test_text_of_a_container_is_never_markup(terminal: tuple[TerminalOutput, io.StringIO, io.StringIO]) -> None:
    output, stderr, stdout = terminal
    hostile = "[bold red]x[/] [link=http://evil.example]y[/link] :smile: [/nothing]"

    output.log("first/kserve-container", hostile)
    output.say(hostile)
    output.show(hostile)
    output.show_service(hostile, [(hostile, hostile)], [hostile])
    output.end()

    assert stderr.getvalue().count(hostile) == 2
    assert stdout.getvalue().count(hostile) == 5
    assert "\x1b]8" not in stderr.getvalue() + stdout.getvalue()  # a link


def test_a_download_is_a_bar_until_the_next_line_and_results_are_printed_without_it(
    terminal: tuple[TerminalOutput, io.StringIO, io.StringIO],
) -> None:
    output, stderr, stdout = terminal

    output.log(INITIALIZER, "INFO  42 % of 1.5 GiB (80.0 MiB/s, 11 s left)")
    output.show("a result")
    output.log("second/storage-initializer", "  1 % of 2.0 GiB (1.0 MiB/s, 9 s left)")
    output.log(INITIALIZER, "copied model.mar (1.5 GiB)")
    output.end()

    printed = stderr.getvalue()
    assert "42 % of 1.5 GiB, 80.0 MiB/s, 11 s left" in printed
    assert "INFO  42 %" not in printed
    assert "copied model.mar (1.5 GiB)" in printed
    assert "a result\n" in stdout.getvalue()


def test_a_server_that_prints_something_like_progress_gets_no_bar(
    terminal: tuple[TerminalOutput, io.StringIO, io.StringIO],
) -> None:
    output, stderr, _ = terminal

    output.log("first/kserve-container", "42 % of 1.5 GiB (80.0 MiB/s, 11 s left)")

    assert stderr.getvalue().endswith("42 % of 1.5 GiB (80.0 MiB/s, 11 s left)\n")


def test_where_there_is_no_terminal_lines_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    with new_output() as output:
        output.log("first/kserve-container", "serving")
        output.show_service("first", [("URL", "http://127.0.0.1:8080/default/first/")], [])

    assert capsys.readouterr() == (
        "\nfirst is served\n  URL: http://127.0.0.1:8080/default/first/\n",
        "first/kserve-container | serving\n",
    )


@pytest.mark.parametrize("output_of", [PlainOutput, TerminalOutput])
def test_what_nobody_reads_any_more_is_told_once_and_then_dropped(
    output_of: Callable[[TextIO, TextIO], PlainOutput | TerminalOutput], capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    told: list[str] = []
    with os.fdopen(writer, "w") as stderr:
        output = output_of(stderr, io.StringIO())
        output.when_lost(lambda: told.append("lost"))

        output.say("nobody reads this")
        output.log("first/kserve-container", "nor this")

    assert told == ["lost"]
    assert capfd.readouterr() == ("", "")


def test_a_reader_who_does_not_read_stops_nothing_and_is_told_what_was_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNREAD_OUTPUT_BYTES", 20_000)
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stderr, os.fdopen(reader) as printed:
        output = Output(PlainOutput(stderr, io.StringIO()))
        for number in range(10_000):
            output.log("first/kserve-container", f"{number} {'x' * 200}")
        output.say("stopping")
        lines = list(iter(printed.readline, "stopping\n"))
        output.end()

    dropped = [int(line.split()[0]) for line in lines if "lines were dropped here" in line]
    assert sum(dropped) + len(lines) - len(dropped) == 10_000
    assert sum(dropped) > 8_000


def everything(terminal: int) -> str:
    """What is written to the other end of a terminal, until it is closed."""
    shown = b""
    with suppress(OSError):
        while part := os.read(terminal, 65536):
            shown += part
    return shown.decode()


def test_on_a_terminal_an_address_is_copied_as_a_whole_and_a_download_has_a_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a real one, with 40 columns."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal, ours = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    url = f"http://127.0.0.1:8080/default/{'a-long-name-' * 5}/"
    with ThreadPoolExecutor(1) as reader, os.fdopen(ours, "w") as stream:
        reading = reader.submit(everything, terminal)
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "stdout", stream)
        with new_output() as output:
            output.log("first/kserve-container", "serving")
            output.log(INITIALIZER, "42 % of 1.5 GiB (80.0 MiB/s, 11 s left)")
            output.show_service("first", [("URL", url), ("Host", "first.example.com")], [])
    shown = reading.result()
    os.close(terminal)

    assert re.search(r"\x1b\[\d+mfirst/kserve-container \| \x1b\[0mserving\r\n", shown)
    assert url in shown
    assert "42 % of" in shown
    assert "━" in shown
