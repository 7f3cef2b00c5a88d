"""Bodies and headers as hooks read them, and as clients get what hooks return: whole, or in pieces."""

from __future__ import annotations

import gzip
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.sdk_models import NOBODY, Headers, Predicting, Ready, WithHeaders
from transformer_sdk.testing import TransformerServer


def test_a_compressed_body_is_refused_with_what_to_do() -> None:
    with TransformerServer(Predicting(lambda payload: payload), predictor=NOBODY) as server:
        reply = server.post(gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})

    assert (reply.status, "send it as it is, uncompressed" in reply.json()["error"]) == (415, True)


@pytest.mark.parametrize(
    ("result", "content_type", "body"),
    [
        ({"predictions": [1]}, "application/json", b'{"predictions":[1]}'),
        ([1, 2], "application/json", b"[1,2]"),
        ("text", "text/plain; charset=utf-8", b"text"),
        (b"\x00", "application/octet-stream", b"\x00"),
    ],
    ids=["document", "list", "text", "bytes"],
)
def test_whatever_a_hook_returns_is_sent_as_what_it_is(result: Any, content_type: str, body: bytes) -> None:
    with TransformerServer(Predicting(lambda _: result)) as server:
        reply = server.post({})

    assert (reply.status, reply.headers["content-type"], reply.body) == (200, content_type, body)


def test_a_hooks_content_type_counts_however_it_is_written() -> None:
    with TransformerServer(WithHeaders("a,b", {"Content-Type": "text/csv"})) as server:
        assert server.post({}).headers["content-type"] == "text/csv"


# --- streams


class Streaming(Ready):
    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.fails = fails
        self.ended = threading.Event()

    async def predict(self, payload: Any, headers: Headers = None) -> AsyncIterator[str]:  # type: ignore[override]
        try:
            for word in ("one ", "two "):
                yield word
            if self.fails:
                raise ValueError("late")
            yield "three"
        finally:
            self.ended.set()


def test_a_stream_that_fails_breaks_off_so_that_the_client_can_tell(caplog: pytest.LogCaptureFixture) -> None:
    import http.client

    model = Streaming(fails=True)
    with TransformerServer(model) as server, pytest.raises(http.client.IncompleteRead):
        server.post({})

    assert model.ended.is_set()
    assert "ValueError: late" in caplog.text
