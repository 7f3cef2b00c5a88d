"""Paths of the protocols, and the list of a server's models."""

from __future__ import annotations

import pytest

from isvc.inference.protocol import InferenceProtocol, models_in


def test_each_protocol_has_its_path() -> None:
    assert [protocol.path("a/b é") for protocol in InferenceProtocol] == [
        "/v1/models/a%2Fb%20%C3%A9:predict",
        "/v2/models/a%2Fb%20%C3%A9/infer",
        "/predictions/a%2Fb%20%C3%A9",
    ]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"models": ["bert", "mnist"]}', ["bert", "mnist"]),
        (b'{"models": ["\\ud800", "mnist"]}', ["mnist"]),
        (b'{"models": [{"name": "llm"}]}', None),
        (b'{"object": "list", "data": [{"id": "llm"}]}', None),
        (b"[]", None),
        (b"<html></html>", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_list_of_another_protocol_is_none(body: bytes, names: list[str] | None) -> None:
    assert models_in(body) == names
