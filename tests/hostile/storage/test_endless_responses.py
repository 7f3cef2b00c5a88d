"""Responses without an end, and servers that send next to nothing."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.hostile.storage.stores import MIB, ONCE, listing, s3_environment, visible
from tests.integration.storage.conftest import Initialize
from tests.support.object_stores.proxy import Endless, proxy


@pytest.mark.parametrize("pages", [0, 5], ids=["in its first page", "after some pages"])
def test_a_listing_without_an_end_is_given_up(
    initialize: Initialize, models: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    monkeypatch.setattr("storage_initializer.backends.store.MAX_LISTING_S", 0.5)
    page = Endless(b"HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>", b"<Contents/>", every_s=0.1)
    answers = itertools.chain([listing(more="again")] * pages, itertools.repeat(page))
    with proxy(None, lambda _: next(answers)) as server:
        outcome = initialize("s3://models/m/", models, **s3_environment(server.url))

    assert (outcome.exit_code, len(server.requests)) == (17, pages + 1)
    assert "lists without an end; see its log" in outcome.reason


def test_a_response_that_is_no_file_is_not_held_in_memory(
    initialize: Initialize, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_initializer.backends.client.MAX_RESPONSE", MIB)
    with proxy(None, lambda _: Endless(b"HTTP/1.1 200 OK\r\n\r\n", b"{}" * 1000)) as node:
        host = node.url.removeprefix("http://")
        outcome = initialize("gs://models/m", models, GCE_METADATA_HOST=host, **ONCE)

    assert outcome.exit_code == 7
    assert "no token for the service account of the metadata server" in outcome.reason


def test_a_server_that_says_nothing_is_not_waited_for(initialize: Initialize, models: Path) -> None:
    with proxy(None, lambda _: Endless(b"", b"", every_s=0.1)) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert outcome.exit_code == 15
    assert "does not respond in time" in outcome.reason


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n",
    ],
    ids=["before the status", "in the headers", "in the body", "in a chunk"],
)
def test_a_server_that_trickles_counts_as_one_that_does_not_answer(
    initialize: Initialize, models: Path, start: bytes
) -> None:
    """A byte comes well before each read would time out."""
    with proxy(None, lambda _: Endless(start, b"x", every_s=0.25)) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert (outcome.exit_code, visible(models)) == (15, {})
    assert "does not respond in time" in outcome.reason


def test_a_proxy_that_trickles_counts_as_one_that_does_not_answer(initialize: Initialize, models: Path) -> None:
    with proxy(None, lambda _: Endless(b"HTTP/1.1 200 OK\r\n", b"x", every_s=0.25)) as between:
        outcome = initialize("https://models.invalid/x.bin", models, HTTPS_PROXY=between.url, **ONCE)

    assert outcome.exit_code == 15
    assert "does not connect to models.invalid" in outcome.reason


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y" * MIB),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"X: y\r\n" * 1000),
    ],
    ids=["headers", "a header", "interim answers", "trailers"],
)
def test_an_answer_whose_head_has_no_end_is_given_up(
    initialize: Initialize, models: Path, start: bytes, more: bytes
) -> None:
    with proxy(None, lambda _: Endless(start, more)) as server:
        outcome = initialize(f"{server.url}/x.bin", models, **ONCE)

    assert outcome.exit_code in (15, 17)
    assert visible(models) == {}
