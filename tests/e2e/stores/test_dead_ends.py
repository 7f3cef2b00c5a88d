"""What no patience helps against: one line each that names the cause and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.stores.conftest import Store
from tests.integration.storage.conftest import Initialize
from tests.support.object_stores.proxy import Action, Answer, Damage, Reset, Stall, Truncate, is_object, on, proxy
from tests.support.ports import free_port

ALWAYS = range(1, 1000)
TWICE = {"S3_MAX_ATTEMPTS": "2", "S3_READ_TIMEOUT": "1"}


@pytest.mark.parametrize(
    ("path", "suggestion"),
    [
        ("modl", "did you mean model?"),
        ("model/wieghts.bin", "did you mean weights.bin?"),
        (
            "model/weights.bin/part",
            "model/weights.bin is an object, so nothing can be below it; end the path there",
        ),
    ],
)
def test_a_path_that_is_not_there_is_named_with_its_nearest(
    initialize: Initialize, store: Store, models: Path, path: str, suggestion: str
) -> None:
    uri = store.fill({"model/weights.bin": b"w", "other/weights.bin": b"w"})

    outcome = initialize(f"{uri}/{path}", models, **store.environment())

    bucket = uri.rpartition("/")[2]
    assert (outcome.exit_code, outcome.reason) == (
        5,
        f"{uri}/{path}: there is nothing at {path} in the bucket {bucket}; {suggestion}",
    )
    assert list(models.iterdir()) == []


def test_an_empty_bucket(initialize: Initialize, store: Store, models: Path) -> None:
    uri = store.fill({})

    outcome = initialize(uri, models, **store.environment())

    bucket = uri.rpartition("/")[2]
    assert (outcome.exit_code, outcome.reason) == (
        5,
        f"{uri}: there is nothing at its root in the bucket {bucket}; put the model there first",
    )


def test_a_bucket_that_is_not_there(initialize: Initialize, store: Store, models: Path) -> None:
    """Google's emulator responds with a 500 where Google responds with this."""
    uri = f"{store.scheme}://nowhere/model"
    missing = Answer(404, b"<Error><Code>NoSuchBucket</Code><Message>There is none.</Message></Error>")

    with proxy(store.server.url, on(missing, ALWAYS, of=lambda _: store.scheme == "gs")) as between:
        outcome = initialize(uri, models, **store.environment(between.url))

    assert outcome.exit_code == 5
    assert outcome.reason.startswith(f"{uri}: there is no bucket nowhere at {between.url}; correct its name")


def test_an_endpoint_that_nobody_listens_on(initialize: Initialize, store: Store, models: Path) -> None:
    host = f"127.0.0.1:{free_port()}"

    outcome = initialize(f"{store.scheme}://models/model", models, **store.environment(f"http://{host}"), **TWICE)

    assert (outcome.exit_code, outcome.reason) == (
        15,
        f"{store.scheme}://models/model: {host} refuses connections; correct the endpoint and port, or start it",
    )


def test_a_name_that_nobody_has(initialize: Initialize, store: Store, models: Path) -> None:
    outcome = initialize(
        f"{store.scheme}://models/model", models, **store.environment("http://no-such-host.invalid:9000"), **TWICE
    )

    assert outcome.exit_code == 15
    assert outcome.reason.startswith(f"{store.scheme}://models/model: the name no-such-host.invalid")
    assert outcome.reason.endswith("; correct the endpoint")


@pytest.mark.parametrize(
    ("fault", "code", "complaint"),
    [
        (Answer(503), 17, "responds with 503 Service Unavailable; see its log, or send fewer requests"),
        (Answer(500), 17, "responds with 500 Internal Server Error; see its log, or send fewer requests"),
        (Truncate(1000), 17, "closed the connection before the end of the object; see its log"),
        (Stall(1000), 15, "does not respond in time; check whether a network policy blocks it"),
        (Reset(), 15, "broke ("),
    ],
    ids=["503", "500", "cut off", "stalled", "reset"],
)
def test_a_fault_that_does_not_pass(
    initialize: Initialize, store: Store, models: Path, fault: Action, code: int, complaint: str
) -> None:
    uri = store.fill({"weights.bin": bytes(3000)})
    with proxy(store.server.url, on(fault, ALWAYS)) as between:
        outcome = initialize(uri, models, **store.environment(between.url), **TWICE)

    assert outcome.exit_code == code
    assert outcome.reason.startswith(f"{uri}: ")
    assert complaint in outcome.reason
    assert "\n" not in outcome.reason
    assert len(between.harmed) == 2
    assert not (models / "weights.bin").exists()


def test_a_page_of_a_login_is_no_listing(initialize: Initialize, store: Store, models: Path) -> None:
    """As a captive proxy or a wrong port answers."""
    page = Answer(200, b"<!DOCTYPE html><p>Please log in", {"Content-Type": "text/html"})
    with proxy(None, lambda _: page) as elsewhere:
        outcome = initialize(f"{store.scheme}://models/model", models, **store.environment(elsewhere.url), **TWICE)

    assert outcome.exit_code == 17
    assert " does not respond like " in outcome.reason


def test_a_damaged_copy_is_named_with_its_checksum(initialize: Initialize, store: Store, models: Path) -> None:
    uri = store.fill({"weights.bin": bytes(3000)})
    with proxy(store.server.url, on(Damage(1000), ALWAYS, of=is_object)) as between:
        outcome = initialize(uri, models, **store.environment(between.url), **TWICE)

    assert outcome.exit_code == 12
    assert outcome.reason.startswith(f"{uri}: weights.bin has the ")
    assert outcome.reason.endswith("; copy it to the source again")
    assert list(models.iterdir()) == []
