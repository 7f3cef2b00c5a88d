"""Sizes, ranges and lengths that a server reports wrongly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.storage.stores import MIB, ONCE, listing, s3_environment, store, visible
from tests.integration.storage.conftest import Initialize
from tests.support.object_stores.proxy import Endless, Raw, Request, proxy


@pytest.mark.parametrize("size", ["-1", "1e9", "9" * 5000, "x", "²", "1 2"])
def test_a_size_that_is_none_is_refused(initialize: Initialize, models: Path, size: str) -> None:
    with proxy(None, store(listing(("m/x", size)))) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert (outcome.exit_code, visible(models)) == (17, {})
    assert f"{server.url} does not respond like S3 (" in outcome.reason


def test_more_than_the_disk_holds_is_refused_before_it_is_asked_for(initialize: Initialize, models: Path) -> None:
    with proxy(None, store(listing(("m/x", str(10**17))))) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert (outcome.exit_code, len(server.requests)) == (10, 2)


def ranged(start: int, stop: int, total: int) -> bytes:
    return (
        f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{stop - 1}/{total}\r\n"
        f'ETag: "1"\r\nContent-Length: {stop - start}\r\n\r\n'
    ).encode()


def by_request(first: bytes, others: Raw | Endless) -> Callable[[Request], Raw | Endless]:
    """The first is for the file's length."""
    answers = iter([Raw(first)])
    return lambda _: next(answers, others)


@pytest.mark.parametrize(
    ("answer", "exit_code", "reason"),
    [
        (Raw(ranged(1, 9, 9) + b"12345678"), 17, "sends bytes 1-8/9 where the bytes from 0 were requested"),
        (Raw(ranged(0, 9, 9) + b"1234"), 17, "closed the connection 5 bytes before the end"),
        (Raw(b'HTTP/1.1 206 OK\r\nETag: "1"\r\n\r\n123456789'), 17, "sends a part where the bytes from 0"),
    ],
    ids=["another part", "less than it says", "it does not say which part"],
)
def test_a_part_that_is_not_what_was_asked_for_is_refused(
    initialize: Initialize, models: Path, answer: Raw, exit_code: int, reason: str
) -> None:
    with proxy(None, by_request(ranged(0, 1, 9) + b"1", answer)) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert (outcome.exit_code, visible(models)) == (exit_code, {})
    assert reason in outcome.reason


def test_of_an_answer_without_an_end_only_what_was_asked_for_is_taken(initialize: Initialize, models: Path) -> None:
    head = b'HTTP/1.1 206 OK\r\nContent-Range: bytes 0-8/9\r\nETag: "1"\r\n\r\n'
    with proxy(None, by_request(ranged(0, 1, 9) + b"1", Endless(head, bytes(MIB)))) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert (outcome.exit_code, visible(models)) == (0, {"x.bin": bytes(9)})


def test_a_file_without_a_length_and_without_an_end_is_given_up(
    initialize: Initialize, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_initializer.download.MAX_UNSIZED", 8 * MIB)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with proxy(None, lambda _: Endless(chunked, b"100000\r\n" + bytes(MIB) + b"\r\n")) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert (outcome.exit_code, outcome.reason, visible(models)) == (
        17,
        f"{server.url}/x.bin: x.bin has more than 8.0 MiB, and its server does not report its length; "
        "serve it with a Content-Length",
        {},
    )


@pytest.mark.parametrize("name", ["x" * 256, "ü" * 128])
def test_a_name_that_no_disk_takes_is_refused_before_it_is_asked_for(
    initialize: Initialize, models: Path, name: str
) -> None:
    with proxy(None, store(listing((f"m/{name}/x", "1")))) as server:
        outcome = initialize("s3://models/m", models, **s3_environment(server.url))

    assert (outcome.exit_code, len(server.requests)) == (8, 1)
    assert outcome.reason.endswith("… has a name of more than 255 bytes; rename it")
