"""Requests to a local service, and the command that is printed."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from isvc_operator.local.caller import Endpoint, model_names, predict_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"models": ["bert", "mnist"]}', ["bert", "mnist"]),
        ('{"object": "list", "data": [{"id": "llm"}]}', ["first"]),
        ("[]", ["first"]),
        ('{"models": [{"name": "llm"}]}', ["first"]),
        ("<html></html>", ["first"]),
    ],
)
async def test_a_list_of_another_protocol_is_none(text: str, names: list[str]) -> None:
    async def say(_: web.Request) -> web.Response:
        return web.Response(text=text)

    app = web.Application()
    app.router.add_get("/v1/models", say)
    async with TestServer(app) as server:
        assert server.port is not None
        assert await model_names(Endpoint("first", "first.default.example.com", server.port)) == names


def test_the_announced_command_holds_for_names_with_blanks() -> None:
    endpoint = Endpoint("first", "first.default.example.com", 8080, path="/default/first")

    assert endpoint.curl(predict_path("a model"), "my samples/one.json") == (
        "curl -X POST http://127.0.0.1:8080/default/first/v1/models/a%20model:predict -T 'my samples/one.json'"
    )
