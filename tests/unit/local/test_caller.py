"""Requests to a local service, and the command that is printed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from isvc.inference.protocol import InferenceProtocol
from isvc.run import caller as caller_module
from isvc.run.caller import Endpoint, Served, sample_request, served
from isvc.run.errors import RunFailed


async def test_a_server_without_a_list_of_the_protocol_has_a_model_of_the_services_name() -> None:
    async def say(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "llm"}]})

    app = web.Application()
    app.router.add_get("/v1/models", say)
    async with TestServer(app) as server:
        assert server.port is not None
        found = await served(Endpoint("first", "first.default.example.com", server.port))
        assert list(found.names) == ["first"]


async def test_commands_are_printed_for_so_many_models() -> None:
    async def say(request: web.Request) -> web.Response:
        listed = request.path == "/v1/models"
        return web.json_response({"models": [str(number) for number in range(100)]} if listed else NUMBERS)

    app = web.Application()
    app.router.add_get("/{path:.*}", say)
    async with TestServer(app) as server:
        assert server.port is not None
        found = await served(Endpoint("first", "first.default.example.com", server.port))

    assert found == Served(tuple(map(str, range(20))), True, {str(number): NUMBERS for number in range(20)})


async def test_a_model_that_is_listed_but_not_served_is_left_out() -> None:
    async def say(request: web.Request) -> web.Response:
        if request.path == "/v1/models":
            return web.json_response({"models": ["good", "workflow", "plain"]})
        if request.path == "/v2/models/good":
            return web.json_response(NUMBERS)
        return web.json_response({"error": "…"}, status=503 if request.path.endswith("workflow") else 404)

    app = web.Application()
    app.router.add_get("/{path:.*}", say)
    async with TestServer(app) as server:
        assert server.port is not None
        found = await served(Endpoint("first", "first.default.example.com", server.port))

    assert found == Served(("good", "plain"), True, {"good": NUMBERS})


@pytest.mark.parametrize(
    ("path", "response", "why"),
    [
        ("/v1/models", b"", "no response within 0.2 s"),
        ("/v2/models/first", b"", "no response within 0.2 s"),
        ("/v1/models", b"rubbish", "400, message.*gzip"),
    ],
)
async def test_a_server_that_does_not_say_which_models_it_has_is_named(
    monkeypatch: pytest.MonkeyPatch, path: str, response: bytes, why: str
) -> None:
    monkeypatch.setattr(caller_module, "MODELS_SECONDS", 0.2)

    async def say(request: web.Request) -> web.Response:
        if request.path != path:
            return web.json_response({"models": ["first"]})
        if not response:
            await asyncio.sleep(60)
        return web.Response(body=response, headers={"Content-Encoding": "gzip"})

    app = web.Application()
    app.router.add_get("/{path:.*}", say)
    async with TestServer(app, handler_cancellation=True) as server:
        assert server.port is not None
        with pytest.raises(RunFailed, match=f"^first does not say which models it serves: {why}"):
            await served(Endpoint("first", "first.default.example.com", server.port))


def test_the_announced_command_holds_for_names_with_blanks() -> None:
    endpoint = Endpoint("first", "first.default.example.com", 8080, path="/default/first")

    assert endpoint.curl(InferenceProtocol.V1.path("a model"), Path("my samples/one.json")) == (
        "curl -X POST http://127.0.0.1:8080/default/first/v1/models/a%20model:predict -T 'my samples/one.json'"
    )
    assert endpoint.curl("/v2/models/m/infer", b'{"inputs": ["it\'s"]}') == (
        "curl -X POST http://127.0.0.1:8080/default/first/v2/models/m/infer -H 'Content-Type: application/json' "
        """-d '{"inputs": ["it'"'"'s"]}'"""
    )


NUMBERS = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]}
TEXTS = {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [-1]}]}


@pytest.mark.parametrize(
    ("metadata", "v1", "beside", "transformed", "expected"),
    [
        (NUMBERS, True, '{"instances": []}', False, ("v2", "made")),
        (NUMBERS, True, '{"instances": []}', True, ("v1", "beside")),
        (TEXTS, True, '{"instances": []}', False, ("v1", "beside")),
        (TEXTS, False, '{"instances": []}', False, ("v2", "made")),
        (TEXTS, False, None, False, ("v2", "made")),
        ({"inputs": []}, True, '{"inputs": []}', False, ("v2", "beside")),
        (None, True, "[", False, ("v1", "unknown")),
        (None, True, None, False, ("v1", "unknown")),
    ],
)
def test_the_sample_is_one_that_fits(
    tmp_path: Path, metadata: Any, v1: bool, beside: str | None, transformed: bool, expected: tuple[str, str]
) -> None:
    file = tmp_path / "sample.json"
    if beside:
        file.write_text(beside)
    models = Served(("m",), v1, {} if metadata is None else {"m": metadata})

    protocol, body = sample_request("m", models, file if beside else None, "mine.py", transformed=transformed)

    kind = "beside" if body == file else "unknown" if body is None else "made"
    assert (protocol, kind) == expected


@pytest.mark.parametrize(
    ("handler", "data"), [("image_classifier", "iVBORw0KGgo"), ("text_classifier", "Hello World!")]
)
def test_torchserves_own_handlers_take_a_picture_or_a_text(handler: str, data: str) -> None:
    protocol, body = sample_request("m", Served(("m",), True, {}), None, handler, transformed=False)

    assert isinstance(body, bytes)
    ((instance,),) = json.loads(body).values()
    assert (protocol, instance["data"].startswith(data)) == ("v1", True)
