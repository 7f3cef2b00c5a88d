"""The client of the API server on a connection: streams, servers that do not answer, redirects, proxies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from isvc import api_server
from isvc.run.container import LOOPBACK
from isvc.source.pod_log import read_log
from isvc.view.source import ContainerKey, LogOptions
from isvc_operator.kube import client as client_module
from isvc_operator.kube import requests
from isvc_operator.kube.client import WATCHES_AGENT, connect
from isvc_operator.kube.credentials import credentials_of
from isvc_operator.kube.errors import (
    KubeError,
    ServerBusy,
)
from isvc_operator.manifests import ServiceKey
from tests.support.stub_session import KUBECONFIG, PROXIED

WATCH = requests.ApiRequest("GET", "/api/v1/pods", (("watch", "true"), ("resourceVersion", "7")))


def write_kubeconfig(folder: Path, server: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(KUBECONFIG.replace("https://127.0.0.1:6443", server))
    return str(path)


async def server_in(kubeconfig: str) -> str:
    return (await credentials_of(kubeconfig)).server


@asynccontextmanager
async def serving(
    tmp_path: Path, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
) -> AsyncIterator[str]:
    """The path of a kubeconfig of a server that answers like this."""
    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    try:
        yield write_kubeconfig(tmp_path, f"http://{LOOPBACK}:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


async def test_a_stream_has_the_parts_as_they_come(tmp_path: Path) -> None:
    more = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one")
        await more.wait()
        await response.write(b"two")
        return response

    async with (
        serving(tmp_path, answer) as kubeconfig,
        connect(kubeconfig) as api,
        api.stream(WATCH) as parts,
    ):
        assert await anext(parts) == b"one"
        more.set()
        assert [part async for part in parts] == [b"two"]


async def test_a_stream_that_is_refused_is_an_error(tmp_path: Path) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"message": "busy"}, status=429, headers={"Retry-After": "3"})

    async with serving(tmp_path, answer) as kubeconfig, connect(kubeconfig) as api:
        with pytest.raises(KubeError, match=r"^busy$") as caught:
            async with api.stream(WATCH):
                pass

    assert (caught.value.status, caught.value.retry_after) == (429, 3.0)


async def test_a_stream_that_is_refused_by_a_busy_server_pauses_other_requests_and_the_other_client(
    tmp_path: Path,
) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="Too many requests", status=429, headers={"Retry-After": "3"})

    async with (
        serving(tmp_path, answer) as kubeconfig,
        connect(kubeconfig) as other,
        connect(kubeconfig, pause=other.pause) as api,
    ):
        with pytest.raises(ServerBusy):
            async with api.stream(WATCH):
                pass
        left = other.pause.left
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), api.stream(WATCH):
                pass

    assert 0 < left <= 3.0


@pytest.mark.parametrize("hangs", ["before its head", "in an error"])
async def test_a_stream_that_is_not_accepted_in_time_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    monkeypatch.setattr(client_module, "API_RESPONSE_SECONDS", 0.1)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=500)
        if hangs == "in an error":
            await response.prepare(request)
        await asyncio.get_running_loop().create_future()
        return response

    async with serving(tmp_path, answer) as kubeconfig, connect(kubeconfig) as api:
        with pytest.raises(KubeError, match=r"^no response from the API server"):
            async with api.stream(WATCH):
                pass


async def test_the_response_of_a_log_may_begin_with_its_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "API_RESPONSE_SECONDS", 0.1)
    bert = ContainerKey(service=ServiceKey("models", "bert"), pod="bert", container="server")
    request = read_log(bert, LogOptions(lines=1, follow=True), "")

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0.3)  # longer than any other request may take
        return web.Response(text="a line")

    async with (
        serving(tmp_path, answer) as kubeconfig,
        connect(kubeconfig) as api,
        api.stream(request) as parts,
    ):
        assert [part async for part in parts] == [b"a line"]


async def test_no_redirect_is_followed(tmp_path: Path) -> None:
    paths: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with serving(tmp_path, answer) as kubeconfig, api_server.connect(kubeconfig) as api:
        with pytest.raises(KubeError, match="HTTP 307"):
            await api.send(requests.get("Service", "models", "bert"))
        assert (await api.proxy(PROXIED)).status == 307

    assert "/elsewhere" not in paths


@pytest.mark.parametrize(("given", "agent"), [({}, "isvc-operator/a"), ({"agent": WATCHES_AGENT}, "isvc-watches/a")])
async def test_requests_name_their_sender_and_use_nothing_of_netrc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], agent: str
) -> None:
    (tmp_path / "netrc").write_text(f"machine {LOOPBACK} login me password wrong\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    seen: list[dict[str, str | None]] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        seen.append({name: request.headers.get(name) for name in ("Authorization", "User-Agent", "Accept-Encoding")})
        return web.json_response({"kind": "List"})

    async with serving(tmp_path, answer) as kubeconfig, connect(kubeconfig, identity="a", **given) as api:
        await api.send(requests.get("Service", "models", "bert"))

    assert seen == [{"Authorization": "Bearer secret", "User-Agent": agent, "Accept-Encoding": "identity"}]


@pytest.mark.parametrize(("excepted", "proxied"), [("", True), (LOOPBACK, False)])
async def test_the_environment_may_name_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, excepted: str, proxied: bool
) -> None:
    seen: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(str(request.url))
        return web.json_response({"kind": "List"})

    async with serving(tmp_path, answer) as kubeconfig:
        server = await server_in(kubeconfig)
        if proxied:
            write_kubeconfig(tmp_path, "http://api.example")
        monkeypatch.setenv("http_proxy", server if proxied else "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", excepted)
        async with connect(kubeconfig) as api:
            await api.send(requests.get("Service", "models", "bert"))

    assert seen == [f"{'http://api.example' if proxied else server}/api/v1/namespaces/models/services/bert"]
