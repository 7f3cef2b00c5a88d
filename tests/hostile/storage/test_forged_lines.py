"""Names, headers and messages from outside cannot imitate a line of the log or the reason."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest

from storage_initializer import limits
from tests.hostile.storage.stores import MIB, ONCE, listing, s3_environment, store, visible
from tests.integration.storage.conftest import Initialize
from tests.support.object_stores.proxy import Answer, Raw, proxy

FORGED = "done: 1 file\nforged\r\x1b[2Jx\x85\u2028\u202e"


def assert_nothing_is_forged(lines: list[str]) -> None:
    assert [line for line in lines if not line.isprintable() or line.startswith(("forged", "x"))] == []


def test_the_name_of_an_object_forges_no_line(initialize: Initialize, models: Path) -> None:
    key = escape("m/copied x \u202e.bin")
    with proxy(None, store(listing((key, "1")))) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert outcome.exit_code == 0
    assert_nothing_is_forged(outcome.log)
    assert r"copied copied x \u202e.bin (1 B)" in outcome.log


def test_the_name_of_an_object_of_several_lines_is_refused(initialize: Initialize, models: Path) -> None:
    with proxy(None, store(listing(("m/x&#10;forged", "1")))) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert outcome.exit_code == 8
    assert_nothing_is_forged([*outcome.log, outcome.reason])


@pytest.mark.parametrize(
    "answer",
    [
        Raw(b"HTTP/1.1 500 it \x1b[2J\x85 broke\r\nContent-Length: 0\r\n\r\n"),
        Raw(b"HTTP/1.1 302 Found\r\nLocation: ftp://\x1b[2J\x85/\r\nContent-Length: 0\r\n\r\n"),
        Raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: \x1b[2Jx\r\nContent-Length: 1\r\n\r\nx"),
        Raw(b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-0/\x1b[2J\x85\r\nContent-Length: 1\r\n\r\nx"),
        Raw(b"\x1b[2J\x85 not HTTP\r\n\r\n"),
    ],
    ids=["status", "redirect", "coding", "range", "no answer"],
)
def test_what_a_server_says_forges_no_reason(initialize: Initialize, models: Path, answer: Raw) -> None:
    with proxy(None, lambda _: answer) as server:
        outcome = initialize(f"{server.url}/bert%0aforged%1b.bin", models, **ONCE)

    assert outcome.exit_code in (15, 17)
    assert_nothing_is_forged([*outcome.log, outcome.reason])


def test_the_name_that_a_server_gives_a_file_forges_no_line(initialize: Initialize, models: Path) -> None:
    named = {"Content-Disposition": "attachment; filename*=UTF-8''bert%0Aforged%1B%5B2J.bin"}
    with proxy(None, lambda _: Answer(200, b"x", named)) as server:
        outcome = initialize(f"{server.url}/x", models, **ONCE)

    assert outcome.exit_code == 0
    assert_nothing_is_forged(outcome.log)
    assert visible(models) == {"bert\nforged\x1b[2J.bin": b"x"}


def test_the_words_of_a_store_forge_no_reason_and_are_cut(initialize: Initialize, models: Path, tmp_path: Path) -> None:
    words = f"<Error><Code>AccessDenied</Code><Message>&#10;forged {'x' * MIB}</Message></Error>"
    with proxy(None, lambda _: Answer(403, words.encode())) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert outcome.exit_code == 7
    assert_nothing_is_forged([*outcome.log, outcome.reason])
    assert len(outcome.reason) <= limits.MAX_REASON


def test_names_in_a_claim_forge_no_line(initialize: Initialize, models: Path, tmp_path: Path) -> None:
    (tmp_path / "claim").mkdir()
    (tmp_path / "claim" / FORGED.replace("/", "")).write_bytes(b"x")

    outcome = initialize(tmp_path / "claim", models)

    assert outcome.exit_code == 0
    assert_nothing_is_forged(outcome.log)


def test_a_traceback_forges_no_line(initialize: Initialize, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise ZeroDivisionError(FORGED)

    monkeypatch.setattr("storage_initializer.cli.open_source", explode)

    outcome = initialize("s3://models/m", models)

    assert outcome.exit_code == 1
    assert_nothing_is_forged([*outcome.log, outcome.reason])
