"""What is made of answers that are too large, malformed, late, or none."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from isvc.predict import send
from isvc.predict.errors import PredictFailed, UnusableRequest
from isvc.predict.payload import of_json
from isvc.predict.send import caller
from isvc.predict.target import Target
from tests.support.ports import free_port
from tests.support.scripted_server import Behaviour, Visitor, scripted

PAYLOAD = of_json(b"[1]", None)


def response(content: bytes, status: str = "200 OK", *more: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"content-length: {len(content)}", *more]
    return "\r\n".join([*head, "", ""]).encode() + content


def saying(answer: bytes) -> Behaviour:
    async def behaviour(visitor: Visitor) -> None:
        await visitor.request()
        await visitor.say(answer)

    return behaviour


async def test_an_answer_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "ANSWER_BYTES", 100)
    async with scripted(saying(response(b"x" * 101))) as server, caller(Target(f"http://{server.host}"), 10) as service:
        with pytest.raises(PredictFailed, match="more than 100 bytes"):
            await service.predict("bert", PAYLOAD)


async def test_of_a_long_list_of_models_only_so_many_are_considered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "MODELS_LISTED", 2)
    content = json.dumps({"models": ["a", "b", "bert"]}).encode()
    async with scripted(saying(response(content))) as server, caller(Target(f"http://{server.host}"), 10) as service:
        with pytest.raises(PredictFailed, match="serves a, b; choose one"):
            await service.model("bert")


@pytest.mark.parametrize(
    ("content", "model"),
    [
        (b'{"models": ["other"]}', "other"),
        (b'{"models": ["other", "bert"]}', "bert"),
        (b'{"models": [{"name": "x"}]}', "bert"),
        (b"[]", "bert"),
        (b"<html>", "bert"),
    ],
    ids=["the only one", "the service's name", "no names", "a list", "a page"],
)
async def test_the_model_is_that_of_the_servers_list(content: bytes, model: str) -> None:
    async with scripted(saying(response(content))) as server, caller(Target(f"http://{server.host}"), 10) as service:
        assert await service.model("bert") == model


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    async with (
        scripted(saying(response(b"", "308 Permanent Redirect", "location: http://127.0.0.1:1"))) as server,
        caller(Target(f"http://{server.host}"), 10) as service,
    ):
        assert (await service.predict("bert", PAYLOAD)).status == 308


async def test_no_answer_in_time_is_said_so() -> None:
    async def silent(visitor: Visitor) -> None:
        await visitor.request()
        await asyncio.Event().wait()

    async with scripted(silent) as server, caller(Target(f"http://{server.host}"), 0.05) as service:
        with pytest.raises(PredictFailed, match=r"within 0\.05 s; look at the pods, or raise --timeout"):
            await service.predict("bert", PAYLOAD)


async def test_a_file_of_certificates_that_is_none_is_named() -> None:
    with pytest.raises(UnusableRequest, match="--cacert /absent"):
        async with caller(Target("https://a"), 1, "/absent"):
            pass


async def test_without_an_answer_what_is_wrong_with_the_service_is_said() -> None:
    failed = Target(f"http://127.0.0.1:{free_port()}", trouble="bert is Failed: NoLicence")
    async with caller(failed, 10) as service:
        with pytest.raises(PredictFailed, match=r"; bert is Failed: NoLicence$"):
            await service.predict("bert", PAYLOAD)
    async with (
        scripted(saying(response(b"", "503 Service Unavailable"))) as server,
        caller(replace(failed, url=f"http://{server.host}"), 10) as service,
    ):
        with pytest.raises(PredictFailed, match=r"returned 503; bert is Failed: NoLicence$"):
            await service.sample("bert")
    async with (
        scripted(saying(response(b"{}"))) as server,  # a transformer's, whose predictor has failed
        caller(replace(failed, url=f"http://{server.host}"), 10) as service,
    ):
        with pytest.raises(PredictFailed, match=r"^bert does not say what it takes; bert is Failed: NoLicence$"):
            await service.sample("bert")


async def test_without_data_a_model_that_the_server_does_not_have_is_told_with_those_that_it_has() -> None:
    async def behaviour(visitor: Visitor) -> None:
        is_list = (await visitor.request()).startswith(b"GET /v1/models ")
        await visitor.say(response(b'{"models": ["a", "b"]}' if is_list else b"", "200 OK" if is_list else "404 No"))

    async with scripted(behaviour) as server, caller(Target(f"http://{server.host}"), 10) as service:
        with pytest.raises(PredictFailed, match=r"^no model bert is served; choose one with --model: a, b$"):
            await service.sample("bert")
        with pytest.raises(UnusableRequest, match="a does not say what it takes"):
            await service.sample("a")


async def test_a_sample_that_is_known_is_not_asked_for() -> None:
    async with caller(Target(f"http://127.0.0.1:{free_port()}", samples={"bert": PAYLOAD}), 10) as service:
        assert await service.sample("bert") == PAYLOAD


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("http://127.0.0.1:80", "127.0.0.1:8080 (the port of make cluster-up)"),
        ("https://127.0.0.1:443", "127.0.0.1:8443 (the port of make cluster-up)"),
        ("http://127.0.0.1:9000", "HOST:PORT"),
        ("http://192.0.2.1:80", "HOST:PORT"),
    ],
)
async def test_an_ingress_of_this_machine_that_does_not_answer_may_have_another_port(
    monkeypatch: pytest.MonkeyPatch, url: str, other: str
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("aiohttp.TCPConnector.connect", refuse)
    async with caller(Target(url), 10) as service:
        with pytest.raises(PredictFailed) as failure:
            await service.model("bert")

    assert f"--url, --address {other} or --port-forward" in str(failure.value)
