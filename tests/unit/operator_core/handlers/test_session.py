"""kopf's connection decodes what the API server sends, whatever an object holds, and notes what watches hear."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import kopf
import pytest
from aiohttp import web
from kopf._cogs.clients.api import iter_jsonlines  # what reads a watch

from isvc_operator.handlers.session import session_of
from isvc_operator.kube.heard import Heard
from isvc_operator.local.container import LOOPBACK
from isvc_operator.telemetry.snapshot import WatchState
from tests.support.fakes import Seconds

DEEP = '{"a":' * 5000 + "1" + "}" * 5000
EVENT = '{"type": "ADDED", "object": {"metadata": {"name": "a"}, "spec": ' + DEEP + "}}\n"


PODS = "/api/v1/pods"


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def heard(seconds: Seconds) -> Heard:
    return Heard(seconds)


@pytest.fixture
async def session(heard: Heard) -> AsyncIterator[kopf.AiohttpSession]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.query.get("watch") == "refused":
            return web.json_response(status=403, text="{}")
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
    made = session_of(kopf.ConnectionInfo(server=server, token="t", default_namespace="d", priority=3), heard)
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


async def test_a_watch_that_was_accepted_has_been_heard_and_again_with_each_part_of_it(
    session: kopf.AiohttpSession, heard: Heard, seconds: Seconds
) -> None:
    needed = {PODS: "pods"}
    assert heard.states(needed) == (WatchState("pods", PODS, listed=False, silent=0.0, starts=0),)
    seconds.passed = 5.0
    async with session.aiohttp_session.get(f"{session.server}{PODS}?watch=true") as answer:
        assert heard.states(needed) == (WatchState("pods", PODS, listed=True, silent=0.0, starts=1),)
        seconds.passed = 8.0
        assert [item.silent for item in heard.states(needed)] == [3.0]
        async for _ in iter_jsonlines(answer.content):
            pass

    assert heard.states(needed) == (WatchState("pods", PODS, listed=True, silent=0.0, starts=1),)


async def test_what_is_no_watch_is_not_heard(session: kopf.AiohttpSession, heard: Heard) -> None:
    for query in ("", "?watch=refused"):
        async with session.aiohttp_session.get(f"{session.server}{PODS}{query}"):
            pass

    assert [item.listed for item in heard.states({PODS: "pods"})] == [False]
