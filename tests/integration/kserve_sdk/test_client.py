"""The client of predictors against servers that misbehave, over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from data_plane import limits
from data_plane.client.errors import PredictorBroken, PredictorError, PredictorTimeout, PredictorUnreachable
from data_plane.client.http import HttpClient
from data_plane.client.responses import UpstreamResponse, successful
from data_plane.client.sessions import Limits
from data_plane.errors import ServingError
from tests.support.scripted_server import OK, Behaviour, ScriptedServer, Visitor, answers, never, says, scripted
from transformer_sdk.kserve.inference_client import USE_CLIENT_DEFAULT, InferenceRESTClient, RESTConfig

GOOD = UpstreamResponse(
    200, ((b"content-type", b"application/json"), (b"content-length", b"19")), b'{"predictions":[7]}'
)


async def ask(
    server: ScriptedServer, body: bytes = b"{}", timeout_s: float = 30.0, retries: int = 0
) -> UpstreamResponse:
    """One request by a client of its own."""
    async with of(server, retries=retries) as client:
        response = await client.send("POST", server.host, "/v1/models/m:predict", (), body, timeout_s)
        return successful(response, server.host)


@contextlib.asynccontextmanager
async def of(server: ScriptedServer, **options: Any) -> AsyncIterator[HttpClient]:
    client = HttpClient(**options)
    try:
        yield client
    finally:
        await client.close()


async def post(
    client: HttpClient, server: ScriptedServer, body: bytes = b"{}", timeout_s: float = 30.0
) -> UpstreamResponse:
    return await client.send("POST", server.host, "/", (), body, timeout_s)


async def test_a_request_goes_out_whole_and_its_answer_comes_back() -> None:
    async with scripted(answers) as server:
        assert await ask(server, b'{"instances":[1]}') == GOOD

    assert server.requests == [
        b"POST /v1/models/m:predict HTTP/1.1\r\nHost: %b\r\nContent-Length: 17\r\n\r\n" % server.host.encode()
        + b'{"instances":[1]}'
    ]


async def heads(url_path: str = "", model: str | None = "m", **more: Any) -> list[str]:
    """The lines of the request that KServe's client sends, without the one of its server's address."""
    async with scripted(answers) as server, InferenceRESTClient() as client:
        await client.infer(f"http://{server.host}{url_path}", {}, model, **more)

    lines = server.requests[0].decode("latin-1").partition("\r\n\r\n")[0].split("\r\n")
    return [line for line in lines if line != f"Host: {server.host}"]


@pytest.mark.parametrize("config", [RESTConfig(), RESTConfig(auth=("me", "secret"))], ids=["plain", "with auth"])
async def test_a_given_host_stands_for_the_addresses(config: RESTConfig) -> None:
    async with scripted(answers) as server, InferenceRESTClient(config) as client:
        headers = {"x-a": "1", "Host": "mnist.default.example.com", "Content-Length": "9", "Connection": "close"}
        await client.infer(f"http://{server.host}", {}, "m", {**headers, "Transfer-Encoding": "chunked"})

    lines = server.requests[0].lower().partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert [line for line in lines if line.startswith(b"host:")] == [b"host: mnist.default.example.com"]
    assert [line for line in lines if line.startswith(b"content-length:")] == [b"content-length: 2"]
    assert not [line for line in lines if line.startswith((b"connection:", b"transfer-encoding:"))]


async def test_a_name_and_a_password_stand_for_the_callers_authorization() -> None:
    async with scripted(answers) as server, InferenceRESTClient(RESTConfig(auth=("me", "secret"))) as client:
        await client.infer(f"http://{server.host}", {}, "m", {"Authorization": "Bearer x", "x-a": "1"})
        await client.is_model_ready(f"http://{server.host}", "m", {"authorization": "Bearer x"})

    asked = [
        [line for line in request.split(b"\r\n") if line.startswith(b"authorization:")] for request in server.requests
    ]
    assert asked == [[b"authorization: Basic bWU6c2VjcmV0"]] * 2


async def test_no_compressed_answer_is_asked_for_whatever_headers_are_passed_on() -> None:
    lines = await heads(headers={"Accept-Encoding": "gzip, br", "x-a": "1"})

    assert lines[1:] == ["x-a: 1", "content-type: application/json", "Content-Length: 2"]


@pytest.mark.parametrize(("url_path", "target"), [("", "/"), ("/", "/"), ("/a/b/", "/a/b/"), ("/a?b=c", "/a?b=c")])
async def test_a_graph_is_asked_by_its_url_as_it_is(url_path: str, target: str) -> None:
    assert (await heads(url_path, is_graph_endpoint=True))[0] == f"POST {target} HTTP/1.1"


@pytest.mark.parametrize(
    ("model", "quoted"),
    [
        ("a model", "a%20model"),
        ("modèle", "mod%C3%A8le"),
        ("模型", "%E6%A8%A1%E5%9E%8B"),
        ("a%20b", "a%20b"),
        ("a~b@c", "a~b@c"),
    ],
)
async def test_a_models_name_is_quoted_in_its_path(model: str, quoted: str) -> None:
    assert (await heads(model=model))[0] == f"POST /v1/models/{quoted}:predict HTTP/1.1"


@pytest.mark.parametrize(
    ("config", "given"), [(RESTConfig(timeout=0.1), None), (RESTConfig(timeout=None), USE_CLIENT_DEFAULT)]
)
async def test_a_timeout_of_none_is_no_limit(config: RESTConfig, given: Any) -> None:
    async def late(visitor: Visitor) -> None:
        await visitor.request()
        await asyncio.sleep(0.6)
        await visitor.say(OK)

    async with scripted(late) as server, InferenceRESTClient(config) as client:
        assert await client.infer(f"http://{server.host}", {}, "m", timeout=given) == {"predictions": [7]}
        with pytest.raises(PredictorTimeout, match=r"within 0\.4 s"):
            await client.infer(f"http://{server.host}", {}, "m", timeout=0.4)


async def test_connections_are_kept_and_no_more_are_opened_than_are_needed() -> None:
    async with scripted(answers) as server:
        async with of(server) as client:
            for _ in range(3):
                await asyncio.gather(*(post(client, server) for _ in range(4)))
            assert (server.visits, server.open) == (4, 4)
        await server.all_closed.wait()


async def test_a_connection_that_has_had_its_time_ends_with_its_request() -> None:
    async def ends_if_asked_to(visitor: Visitor) -> None:
        while b"\r\nconnection: close\r\n" not in await visitor.request():
            await visitor.say(OK)
        await visitor.say(OK)

    async with scripted(ends_if_asked_to) as server, of(server, limits=Limits(age_s=0)) as client:
        assert [await post(client, server) for _ in range(3)] == [GOOD] * 3

    assert server.visits == 3


async def test_requests_over_the_limit_of_connections_wait_their_turn() -> None:
    async with scripted(answers) as server, of(server, limits=Limits(connections=2)) as client:
        answers_ = await asyncio.gather(*(post(client, server) for _ in range(20)))

    assert (answers_, server.visits) == ([GOOD] * 20, 2)


async def test_who_waits_for_a_connection_in_vain_is_told() -> None:
    async with scripted(never) as server, of(server, limits=Limits(connections=1)) as client:
        first = asyncio.create_task(post(client, server))
        await server.asked.wait()
        with pytest.raises(PredictorTimeout, match="all 1 connections are in use"):
            await post(client, server, timeout_s=0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await server.all_closed.wait()


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", b"ok"),
    ],
    ids=["chunks", "HTTP/1.0", "100 before it", "no content", "the last on its connection"],
)
async def test_every_form_of_an_answer_is_understood(text: bytes, body: bytes) -> None:
    async with scripted(says(text)) as server:
        assert (await ask(server)).body == body


async def resets(visitor: Visitor) -> None:
    await visitor.request()
    await visitor.say(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
    visitor.reset()


BAD: dict[str, tuple[Behaviour, type[ServingError], str]] = {
    "garbage": (says(b"SSH-2.0-OpenSSH_9\r\n"), PredictorBroken, "its response is not HTTP"),
    "half a body": (
        says(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"), PredictorBroken, "in the middle of its response",
    ),
    "half a header": (says(b"HTTP/1.1 200 OK\r\ncontent-le"), PredictorBroken, "in the middle of its response"),
    "half a chunk": (
        says(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf"), PredictorBroken, "in the middle",
    ),
    "a reset in the middle": (resets, PredictorBroken, "in the middle of its response"),
    "nothing": (says(b""), PredictorBroken, "closed the connection without a response"),
    "another protocol": (
        says(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
        PredictorBroken, "another protocol",
    ),
    "a redirect": (
        says(b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n"),
        PredictorBroken, "sends on to http://elsewhere/, which is not followed",
    ),
    "an error": (
        says(b'HTTP/1.1 429 Slow\r\ncontent-length: 16\r\n\r\n{"error":"slow"}'), PredictorError, "slow",
    ),
    "never": (never, PredictorTimeout, "did not answer within 0.5 s"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_answer_is_an_error_that_names_the_address(kind: str) -> None:
    behaviour, error, words = BAD[kind]
    async with scripted(behaviour) as server:
        with pytest.raises(error, match=words) as raised:
            await ask(server, timeout_s=0.5 if behaviour is never else 30)
        await server.all_closed.wait()

    assert raised.value.component.startswith("predictor")
    assert len(server.requests) == 1, "what was sent is not sent again"
    if error is not PredictorError:
        assert f"http://{server.host}" in raised.value.message


async def test_an_answer_over_the_bound_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_RESPONSE", 1000)
    for text in (b"content-length: 2000\r\n\r\n" + bytes(2000), b"\r\n" + bytes(2000)):
        async with scripted(says(b"HTTP/1.1 200 OK\r\n" + text)) as server:
            with pytest.raises(PredictorBroken, match="its response has more than 1000 bytes"):
                await ask(server)


def pours(head: bytes, more: bytes) -> Behaviour:
    """A head that does not end."""

    async def behave(visitor: Visitor) -> None:
        await visitor.request()
        await visitor.say(head)
        with contextlib.suppress(ConnectionError):
            while True:
                await visitor.say(more * (limits.MAX_HEAD // len(more)))

    return behave


@pytest.mark.parametrize(
    ("more", "words"),
    [(b"x-a: 1\r\n", "Too many headers received"), (b"x", "Got more than 65536 bytes")],
    ids=["many", "long"],
)
async def test_headers_of_an_answer_over_the_bound_are_given_up(more: bytes, words: str) -> None:
    async with scripted(pours(b"HTTP/1.1 200 OK\r\n", more)) as server:
        with pytest.raises(PredictorBroken, match=rf"its response is not HTTP \({words}"):
            await ask(server)


async def test_early_answers_without_end_are_given_up_in_time() -> None:
    async with scripted(pours(b"", b"HTTP/1.1 100 Continue\r\n\r\n")) as server:
        with pytest.raises(PredictorTimeout, match=r"did not answer within 0\.5 s"):
            await ask(server, timeout_s=0.5)


async def test_attempts_to_connect_end_with_the_requests_time_however_many_there_may_be() -> None:
    client = HttpClient(retries=1_000_000)
    with pytest.raises(PredictorUnreachable):
        await client.send("GET", "http://127.0.0.1:1", "/", timeout_s=0.3)
    await client.close()


async def test_an_error_keeps_its_status_words_and_all_else_that_it_says() -> None:
    body = b'{"error":"no room","component":"queue","code":7}'
    text = b"HTTP/1.1 429 X\r\nretry-after: 3\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    async with scripted(says(text)) as server:
        with pytest.raises(PredictorError) as raised:
            await ask(server)

    error = raised.value
    assert (error.status, error.message, error.component, error.retry_after_s, error.details, error.body) == (
        429, "no room", "predictor/queue", 3, {"code": 7}, body,
    )  # fmt: skip


async def test_nobody_at_the_address_is_a_503_with_what_to_look_at() -> None:
    async with scripted(answers) as server:
        pass

    with pytest.raises(PredictorUnreachable) as raised:
        await ask(server)
    assert raised.value.message == (
        f"The predictor at http://{server.host} cannot be reached: Connection refused; "
        "see whether it is ready and whether --predictor_host is right."
    )


async def test_a_request_whose_time_is_over_is_told_so_and_not_that_the_address_is_wrong() -> None:
    async with scripted(answers) as server:
        pass

    with pytest.raises(PredictorTimeout) as raised:
        await ask(server, timeout_s=0)
    assert raised.value.message == (
        f"The predictor at http://{server.host} was not called: the request's time was over."
    )


async def test_a_predictor_that_could_be_asked_is_not_once_the_requests_time_is_over() -> None:
    async with scripted(answers) as server, of(server) as client:
        await post(client, server)
        with pytest.raises(PredictorTimeout, match="was not called"):
            await post(client, server, b"late", 0)
        assert await post(client, server) == GOOD

    assert ([one[-4:] for one in server.requests], server.visits) == ([b"\r\n{}"] * 2, 1)


async def test_a_host_that_does_not_exist_is_named() -> None:
    client = HttpClient()
    with pytest.raises(PredictorUnreachable, match=r"http://no\.such\.host\.invalid:80 .* there is no such host"):
        await client.send("GET", "http://no.such.host.invalid", "/")
    await client.close()


async def test_connecting_is_tried_again_as_often_as_is_said() -> None:
    async with scripted(answers) as server:
        pass

    async with of(server, retries=3) as client:
        asking = asyncio.create_task(post(client, server))
        await asyncio.sleep(0)
        async with scripted(answers, server.port):
            assert await asking == GOOD


async def hangs_up_when_idle(visitor: Visitor) -> None:
    """Answers once; then closes, its receive buffer unread, when the next request is there."""
    await visitor.request()
    await visitor.say(OK)
    if visitor.number == 1:
        await visitor.reader.readexactly(1)  # of the next request, the rest of which it will not read
        visitor.reset()


async def test_a_kept_connection_that_is_reset_unread_costs_no_request() -> None:
    async with scripted(hangs_up_when_idle) as server, of(server) as client:
        first = await post(client, server)
        second = await post(client, server, b"x" * 1_000_000)

    assert (first, second, server.visits) == (GOOD, GOOD, 2)


@pytest.mark.parametrize("end", [Visitor.close, Visitor.reset], ids=["closes", "resets"])
async def test_a_request_that_crosses_the_end_of_a_kept_connection_is_asked_again(
    end: Callable[[Visitor], None],
) -> None:
    """The server ends it while it is idle, and its end is on the way while the request is."""
    wanted, ended = asyncio.Event(), asyncio.Event()

    async def answers_once(visitor: Visitor) -> None:
        await visitor.request()
        await visitor.say(OK)
        if visitor.number == 1:
            await wanted.wait()
            end(visitor)
            ended.set()

    async with scripted(answers_once) as server, of(server) as client:
        await post(client, server)
        wanted.set()
        await ended.wait()  # and now, without a turn of the event loop to learn of the end:
        assert await post(client, server) == GOOD

    assert len(server.requests) == 2


class Pod(asyncio.Protocol):
    """A server's side of a connection: it answers on the next turn of the loop, and drains as uvicorn does."""

    def __init__(self, pods: set[Pod], every: list[Pod]) -> None:
        self._pods = pods
        self.lost = asyncio.Event()
        every.append(self)
        self._busy = self._draining = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        assert data.endswith(b"\r\n\r\n{}")
        self._pods.add(self)  # not before: no new connection goes to a pod that drains
        self._busy = True
        asyncio.get_running_loop().call_soon(self._answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._pods.discard(self)
        self.lost.set()

    def drain(self) -> None:
        self._draining = True
        if not self._busy:
            self._transport.close()

    def _answer(self) -> None:
        self._busy = False
        self._transport.write(OK.replace(b"OK\r\n", b"OK\r\nconnection: close\r\n") if self._draining else OK)
        if self._draining:
            self._transport.close()


async def test_predictors_that_drain_under_load_cost_no_request() -> None:
    """As in a rollout: the old ones close what is idle and finish the rest, new connections go to the new ones."""
    pods: set[Pod] = set()
    every: list[Pod] = []
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Pod(pods, every), "127.0.0.1", 0)
    address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    client = HttpClient()

    bodies: list[bytes] = []

    async def ask_on(times: int) -> None:
        for _ in range(times):
            bodies.append((await client.send("POST", address, "/", (), b"{}", 30)).body)
            if len(bodies) % 100 == 0:
                for pod in list(pods):
                    pod.drain()

    await asyncio.gather(*(ask_on(200) for _ in range(16)))
    await client.close()
    listening.close()
    await listening.wait_closed()
    for pod in every:  # only later versions of Python have waited for them
        await pod.lost.wait()

    assert bodies == [GOOD.body] * 3200


@pytest.mark.parametrize("end", [Visitor.close, Visitor.reset], ids=["closes", "resets"])
@pytest.mark.parametrize("before", [0, 1], ids=["new", "kept"])
async def test_a_request_that_was_read_is_never_sent_twice(before: int, end: Callable[[Visitor], None]) -> None:
    async def reads_and_goes(visitor: Visitor) -> None:
        for _ in range(before):
            await visitor.request()
            await visitor.say(OK)
        await visitor.request()
        await asyncio.sleep(1.1 * before)  # on a kept connection, later than a request crosses its end
        end(visitor)

    async with scripted(reads_and_goes) as server, of(server) as client:
        for _ in range(before):
            await post(client, server)
        with pytest.raises(PredictorBroken, match="without a response"):
            await post(client, server)

    assert len(server.requests) == before + 1


async def test_who_gives_up_waiting_does_not_leave_an_answer_for_the_next() -> None:
    released = asyncio.Event()

    async def slow(visitor: Visitor) -> None:
        await visitor.request()
        if visitor.number == 1:
            await released.wait()
            await visitor.say(OK.replace(b"[7]", b"[1]"))
        await visitor.say(OK)

    async with scripted(slow) as server, of(server) as client:
        first = asyncio.create_task(post(client, server))
        await server.asked.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = await post(client, server)
        released.set()

    assert second == GOOD


async def test_bad_answers_leave_no_connection_behind() -> None:
    kinds = [behaviour for behaviour, _, _ in BAD.values() if behaviour is not never]

    async def badly(visitor: Visitor) -> None:
        await kinds[visitor.number % len(kinds)](visitor)

    async with scripted(badly) as server, of(server) as client:
        before = _descriptors()
        for _ in range(10):
            await asyncio.gather(*(post(client, server) for _ in range(50)), return_exceptions=True)
        await server.all_closed.wait()

        assert (len(server.requests), server.open) == (500, 0)
        assert _descriptors() <= before


async def test_calls_that_are_given_up_leave_no_connection_behind() -> None:
    async with scripted(never) as server, of(server) as client:
        for _ in range(20):
            calls = (post(client, server, timeout_s=0.001) for _ in range(50))
            assert {type(one) for one in await asyncio.gather(*calls, return_exceptions=True)} <= {
                PredictorTimeout,
                PredictorUnreachable,
            }
        await server.all_closed.wait()

        assert server.open == 0


def _descriptors() -> int:
    return len(os.listdir(Path("/proc/self/fd")))  # noqa: PTH208 - the names are the count
