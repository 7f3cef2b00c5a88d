"""What goes wrong on the way: what can pass is tried again, the rest is one clear line."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.stores.conftest import Store
from tests.integration.storage.conftest import Initialize
from tests.support.model_folder import read_tree
from tests.support.object_stores.proxy import (
    Action,
    Answer,
    Request,
    Reset,
    Slow,
    Stall,
    Truncate,
    is_object,
    on,
    proxy,
)

_chance = random.Random(0)
FILES = {"config.json": b"{}", "weights/1.bin": _chance.randbytes(300_000), "weights/2.bin": _chance.randbytes(3 << 20)}
# An attempt that hangs must be given up before the test is.
PATIENCE = {"S3_CONNECT_TIMEOUT": "1", "S3_READ_TIMEOUT": "1"}

SLOW_DOWN = Answer(503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
BROKEN = Answer(500, b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>")
PASSING = {
    "500": BROKEN,
    "503 SlowDown": SLOW_DOWN,
    "429": Answer(429),
    "reset before the body": Reset(),
    "reset in the body": Reset(200_000),
    "cut off before the body": Truncate(),
    "cut off in the body": Truncate(200_000),
    "stalled before the body": Stall(),
    "stalled in the body": Stall(200_000),
}


def is_listing(request: Request) -> bool:
    return not is_object(request)


@pytest.fixture
def uri(store: Store) -> str:
    return store.fill({f"model/{name}": content for name, content in FILES.items()}) + "/model"


@pytest.mark.parametrize("numbers", [{1}, {2, 3}], ids=["the first", "two in a row"])
@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_read_that_fails_is_tried_again(
    initialize: Initialize, store: Store, uri: str, models: Path, fault: Action, numbers: set[int]
) -> None:
    with proxy(store.server.url, on(fault, numbers)) as between:
        outcome = initialize(uri, models, **store.environment(between.url), **PATIENCE)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES
    assert len(between.harmed) == len(numbers)


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_listing_that_fails_is_tried_again(
    initialize: Initialize, store: Store, uri: str, models: Path, fault: Action
) -> None:
    with proxy(store.server.url, on(fault, {1}, of=is_listing)) as between:
        outcome = initialize(uri, models, **store.environment(between.url), **PATIENCE)

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES
    assert len(between.harmed) == 1


def test_a_broken_download_continues_with_the_piece_that_had_not_arrived(
    initialize: Initialize, bucket: Store, models: Path
) -> None:
    uri = bucket.fill({"weights.bin": FILES["weights/2.bin"]}) + "/weights.bin"
    with proxy(bucket.server.url, on(Truncate(2 << 20), {1})) as between:
        outcome = initialize(uri, models, **bucket.environment(between.url))

    _, again = [request.headers.get("range", "") for request in between.requests if is_object(request)]
    start, _, last = again.removeprefix("bytes=").partition("-")
    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert (1 << 20 <= int(start) <= 2 << 20, int(last)) == (True, (3 << 20) - 1)


def test_an_object_that_is_replaced_meanwhile_is_refused(initialize: Initialize, store: Store, models: Path) -> None:
    """Of the same size: its entity tag alone tells the difference. It is replaced between the reads of two parts."""
    size, count = (16 << 20) + 1, itertools.count(1)
    uri = store.fill({"weights.bin": b"o" * size})

    def decide(request: Request) -> None:
        if is_object(request) and next(count) == 2:
            store.server.put(uri.rpartition("/")[2], "weights.bin", b"n" * size)

    with proxy(store.server.url, decide) as between:
        outcome = initialize(uri, models, **store.environment(between.url))

    assert outcome.exit_code == 12
    assert list(models.iterdir()) == []


def test_no_file_is_ever_half_there(initialize: Initialize, store: Store, uri: str, models: Path) -> None:
    """Neither a new one nor an old one that it replaces."""
    before = dict.fromkeys(FILES, b"of the run before")
    for name, content in before.items():
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        (models / name).write_bytes(content)

    with proxy(store.server.url, on(Slow(4 << 20), range(1, 10))) as between, watched(models) as seen:
        outcome = initialize(uri, models, **store.environment(between.url))

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == FILES
    assert {content for name, content in seen if content not in (before[name], FILES[name])} == set()
    assert len(seen) > 100


@contextmanager
def watched(folder: Path) -> Iterator[list[tuple[str, bytes]]]:
    """What is to be seen at final names during the block, again and again."""
    seen: list[tuple[str, bytes]] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.001):
            for name in FILES:
                # Renaming takes two steps, and a name may be gone for the time between.
                with suppress(FileNotFoundError):
                    seen.append((name, (folder / name).read_bytes()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
