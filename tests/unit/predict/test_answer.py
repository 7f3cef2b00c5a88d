"""An answer as people and programs get it."""

from __future__ import annotations

import pytest

from isvc.inference.protocol import InferenceProtocol
from isvc.inference.timing import stages_of
from isvc.predict.answer import Answer


def answer(body: bytes = b'{"predictions": [4]}', status: int = 200, header: str = "") -> Answer:
    return Answer(
        url="http://h/v1/models/bert:predict",
        model="bert",
        protocol=InferenceProtocol.V1,
        status=status,
        content_type="application/json",
        body=body,
        milliseconds=10.0,
        stages=stages_of(header),
    )


@pytest.mark.parametrize(
    ("body", "value"),
    [(b"text", "text"), (b"\xff\xd8", None), (b"[" * 100_000, "[" * 100_000)],
    ids=["text", "bytes", "nested too deep"],
)
def test_an_answer_that_is_no_json_is_its_text(body: bytes, value: object) -> None:
    assert answer(body).value() == value


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": "model x is not served"}', "model x is not served"),
        (b"<html>\x1b[2J\nbad gateway", "<html>\\x1b[2J\\nbad gateway"),
        (b"", "without a word"),
    ],
    ids=["ours", "a proxy's", "empty"],
)
def test_a_problem_is_one_line(body: bytes, words: str) -> None:
    assert answer(body, 502).problem() == words
    assert not answer(body, 502).succeeded
