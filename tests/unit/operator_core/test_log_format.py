"""The operator's log cannot be forged by what it quotes."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from isvc_operator.limits import LOG_BYTES
from isvc_operator.telemetry.logs import FORMATTERS, logged_for

FORGED = "a\n2026-01-01 00:00:00,000 ERROR   isvc_operator: all is lost\r\x1b[2Kb\u202e"


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log_format() -> str:
    return "text"


@pytest.fixture
def log(written: io.StringIO, log_format: str) -> Iterator[logging.Logger]:
    handler = logging.StreamHandler(written)
    handler.setFormatter(FORMATTERS[log_format]())
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


def test_a_line_names_the_service_that_it_is_about(log: logging.Logger, written: io.StringIO) -> None:
    with logged_for("models", "bert"):
        log.warning("refused")
    log.warning("another")

    first, second = written.getvalue().splitlines()
    assert first.endswith("of.the.test: models/bert: refused")
    assert second.endswith("of.the.test: another")


@pytest.mark.parametrize("log_format", ["json"])
def test_a_record_as_json_is_one_line_with_the_service(log: logging.Logger, written: io.StringIO) -> None:
    with logged_for("models", "bert"):
        log.warning("%s: refused", FORGED)
    log.warning("another")

    first, second = (json.loads(line) for line in written.getvalue().splitlines())
    time = first.pop("time")
    assert first == {
        "level": "WARNING",
        "logger": "of.the.test",
        "message": "a\n2026-01-01 00:00:00,000 ERROR   isvc_operator: all is lost\\r\\x1b[2Kb\\u202e: refused",
        "namespace": "models",
        "name": "bert",
    }
    assert time.endswith("+00:00")
    assert second.keys() == {"time", "level", "logger", "message"}


@pytest.mark.parametrize("log_format", ["json"])
def test_a_record_as_json_is_bounded_and_has_the_end_of_the_traceback(
    log: logging.Logger, written: io.StringIO
) -> None:
    try:
        raise ValueError("y" * 1_000_000 + "the end")
    except ValueError:
        log.exception("x" * 1_000_000)

    (line,) = map(json.loads, written.getvalue().splitlines())
    assert len(line["message"].encode()) == LOG_BYTES
    assert len(line["exception"].encode()) == LOG_BYTES
    assert line["exception"].endswith("the end")
