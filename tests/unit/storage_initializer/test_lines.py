"""Text from outside in a line of the log."""

from __future__ import annotations

import logging
import sys

import pytest

from storage_initializer.limits import MAX_LOG_LINE
from storage_initializer.lines import LogLineFormatter, one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("copied Modell für 模型 🤗.pt (1 B)", "copied Modell für 模型 🤗.pt (1 B)"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[2J\x00\x7f\x85\x9b", r"\x1b[2J\x00\x7f\x85\x9b"),
        ("\u2028\u202e\ufeff\U000e0001", r"\u2028\u202e\ufeff\U000e0001"),
        ("not UTF-8: \udcff", r"not UTF-8: \udcff"),
    ],
)
def test_what_cannot_be_printed_is_escaped(text: str, line: str) -> None:
    assert one_line(text) == line


def test_a_very_long_line_is_cut() -> None:
    assert one_line("x" * MAX_LOG_LINE) == "x" * MAX_LOG_LINE
    assert one_line("x" * (MAX_LOG_LINE + 1)) == "x" * MAX_LOG_LINE + "…"


def test_no_line_of_a_traceback_looks_like_a_record() -> None:
    try:
        raise ValueError("first\ndone: 1 file\x1b[2J")
    except ValueError:
        record = logging.LogRecord("name", logging.ERROR, __file__, 1, "unexpected\n%s", ("x",), sys.exc_info())

    first, *others = LogLineFormatter().format(record).splitlines()

    assert first == r"unexpected\nx"
    assert {line[:2] for line in others} == {"  "}
    assert others[-1] == r"  done: 1 file\x1b[2J"
