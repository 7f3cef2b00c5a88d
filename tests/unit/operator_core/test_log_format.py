"""The operator's log cannot be forged by what it quotes."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from isvc_operator.cli.log_format import LogFormatter
from isvc_operator.limits import LOG_BYTES

FORGED = "a\n2026-01-01 00:00:00,000 ERROR   isvc_operator: all is lost\r\x1b[2Kb\u202e"


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(written: io.StringIO) -> Iterator[logging.Logger]:
    handler = logging.StreamHandler(written)
    handler.setFormatter(LogFormatter())
    logger = logging.Logger("of.the.test")
    logger.addHandler(handler)
    yield logger
    handler.close()


def test_a_record_is_one_line(log: logging.Logger, written: io.StringIO) -> None:
    log.warning("%s/%s: refused", "ns", FORGED)

    (line,) = written.getvalue().splitlines()
    said = "ns/a\\n2026-01-01 00:00:00,000 ERROR   isvc_operator: all is lost\\r\\x1b[2Kb\\u202e: refused"
    assert line.endswith(f"WARNING of.the.test: {said}")


def test_the_lines_of_a_traceback_are_marked(log: logging.Logger, written: io.StringIO) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("failed")

    first, *others = written.getvalue().splitlines()
    assert first.endswith("ERROR   of.the.test: failed")
    assert all(line.startswith("| ") for line in others)
    assert others[-2:] == [
        "| ValueError: a",
        "| 2026-01-01 00:00:00,000 ERROR   isvc_operator: all is lost\\r\\x1b[2Kb\\u202e",
    ]


def test_a_record_is_bounded(log: logging.Logger, written: io.StringIO) -> None:
    try:
        raise ValueError("y" * 1_000_000 + "the end")
    except ValueError:
        log.exception("x" * 1_000_000)

    first, *others = written.getvalue().splitlines()
    assert len(first.encode()) == LOG_BYTES
    assert len("".join(others).encode()) < LOG_BYTES + 10
    assert others[-1].endswith("the end")
