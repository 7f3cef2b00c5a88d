"""kopf's connection decodes what the API server sends, whatever an object holds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import kopf
import pytest
from aiohttp import web
from kopf._cogs.clients.api import iter_jsonlines  # what reads a watch

from isvc_operator.handlers.session import session_of
from isvc_operator.local.container import LOOPBACK

DEEP = '{"a":' * 5000 + "1" + "}" * 5000
EVENT = '{"type": "ADDED", "object": {"metadata": {"name": "a"}, "spec": ' + DEEP + "}}\n"


@pytest.fixture
async def session() -> AsyncIterator[kopf.AiohttpSession]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/list":
            return web.json_response(text='{"items": [{"metadata": {"name": "a"}, "spec": ' + DEEP + "}]}")
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (EVENT[:10], EVENT[10:] + EVENT, EVENT.strip()):
            await response.write(part.encode())
        return response

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    server = f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    made = session_of(kopf.ConnectionInfo(server=server, token="t", default_namespace="d", priority=3))
    assert (made.server, made.default_namespace, made.priority) == (server, "d", 3)
    assert made.aiohttp_session.headers["Authorization"] == "Bearer t"
    yield made
    await made.aiohttp_session.close()
    await runner.cleanup()


async def test_a_list_with_an_object_that_is_nested_too_deeply_is_decoded(session: kopf.AiohttpSession) -> None:
    async with session.aiohttp_session.get(f"{session.server}/list") as answer:
        items = (await answer.json())["items"]

    assert [item["metadata"] for item in items] == [{"name": "a"}]


async def test_of_a_watch_every_event_can_be_decoded(session: kopf.AiohttpSession) -> None:
    async with session.aiohttp_session.get(f"{session.server}/watch") as answer:
        lines = [line async for line in iter_jsonlines(answer.content)]

    assert [json.loads(line)["object"]["metadata"] for line in lines] == [{"name": "a"}] * 3
