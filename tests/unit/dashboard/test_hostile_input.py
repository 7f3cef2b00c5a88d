"""What is written to break a page: it is refused or shown, and never ends in an error of the dashboard itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from yarl import URL

from isvc.view.source import ServiceRequest, ServiceResponse
from tests.support.fake_services import FakeServices
from tests.support.fake_source import FakeSource

PATH = "/services/models/torchserve"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SERVICE = "InferenceService"


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.fixture
def source() -> FakeSource:
    return FakeSource(FakeServices().ready())


@pytest.fixture
def headers(url: URL) -> dict[str, str]:
    return {"Origin": str(url.origin()), "HX-Request": "true"}


@pytest.mark.parametrize(
    "applied",
    [
        "{",
        "[1]",
        json.dumps({"kind": SERVICE, "metadata": 1}),
        json.dumps({"kind": SERVICE, "metadata": {"annotations": ["a"]}}),
        json.dumps({"kind": SERVICE}),
        json.dumps({"kind": "Secret", "metadata": {}, "data": [[1]]}),
        "[" * 100_000,
        json.dumps({"kind": SERVICE, "metadata": {}, "spec": nested(900)}),
        '{"kind": "InferenceService", "metadata": {}, "spec": "\\ud800"}',
    ],
    ids=["no JSON", "a list", "metadata", "annotations", "no metadata", "a Secret", "brackets", "deep", "half"],
)
async def test_any_text_may_be_in_the_annotation_of_what_was_applied(
    viewer: aiohttp.ClientSession, source: FakeSource, applied: str
) -> None:
    related = FakeServices().ready()
    metadata = {**related.service["metadata"], "annotations": {APPLIED: applied}}
    source.put(replace(related, service={**related.service, "metadata": metadata}))

    async with viewer.get(f"{PATH}/yaml") as response:
        assert (response.status, "YAML as applied" in await response.text()) == (200, True)


async def test_a_spec_that_is_nested_too_deeply_is_not_written(
    viewer: aiohttp.ClientSession, source: FakeSource
) -> None:
    related = FakeServices().ready()
    spec = {**related.service["spec"], "extra": nested(900)}
    source.put(replace(related, service={**related.service, "spec": spec}))

    async with viewer.get(f"{PATH}/yaml") as response:
        assert (response.status, "nested too deeply" in await response.text()) == (200, True)


@pytest.mark.parametrize(
    "models", [rb'["\ud800"]', rb'["\ud800", "bert"]', b"[1, null]", b"{}", b"[" * 100_000, b"1" * 10_000], ids=range(6)
)
async def test_any_name_may_be_in_the_list_of_models(
    viewer: aiohttp.ClientSession, source: FakeSource, models: bytes
) -> None:
    body = b'{"models": %s}' % models
    source.respond = lambda _: ServiceResponse(status=200, headers={}, body=body, seconds=0.1)

    async with viewer.get(f"{PATH}/sample") as response:
        text = await response.text()
    assert response.status == 200
    assert f'value="{"bert" if b"bert" in models else "torchserve"}"' in text


@pytest.mark.parametrize("timing", ["a;dur=.", "a;dur=1e99", ",;,;=", "a;dur=" + "9" * 5000, "\xff;dur=1"])
async def test_any_text_may_be_in_the_header_of_times(
    viewer: aiohttp.ClientSession, source: FakeSource, headers: dict[str, str], timing: str
) -> None:
    def respond(_request: ServiceRequest) -> ServiceResponse:
        return ServiceResponse(status=200, headers={"Server-Timing": timing}, body=b"{}", seconds=0.0)

    source.respond = respond
    async with viewer.post(f"{PATH}/request", headers=headers, data={"body": "{}"}) as response:
        assert (response.status, "does not say where" in await response.text()) == (200, True)


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=", b"x"),
        ("multipart/form-data; boundary=" + "x" * 100, b"x"),
        ("multipart/form-data; boundary=b", b"nothing of it"),
        ("application/x-www-form-urlencoded; charset=nothing", b"body=x"),
        ("application/x-www-form-urlencoded", b"body=\xff"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="body"\r\n\r\n\xff\r\n--b--\r\n',
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: text/a; charset=no\r\n\r\nx\r\n--b--',
        ),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n"),
    ],
    ids=[
        "no boundary",
        "an empty one",
        "a long one",
        "not in it",
        "a charset",
        "no UTF-8",
        "no text",
        "no charset",
        "no name",
    ],
)
async def test_a_body_that_is_no_form_is_refused(
    viewer: aiohttp.ClientSession, source: FakeSource, headers: dict[str, str], type_: str, body: bytes
) -> None:
    async with viewer.post(f"{PATH}/request", headers={**headers, "Content-Type": type_}, data=body) as response:
        assert (response.status, "is not a form" in await response.text()) == (400, True)
    assert source.requests == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_that_cannot_be_unpacked_is_refused(
    viewer: aiohttp.ClientSession, headers: dict[str, str], encoding: str
) -> None:
    sent = {**headers, "Content-Type": "application/x-www-form-urlencoded", "Content-Encoding": encoding}
    async with viewer.post(f"{PATH}/request", headers=sent, data=b"body={}") as response:
        assert response.status == 400


@pytest.mark.parametrize("value", ["\xff", "é", "\ud800"])
async def test_a_cookie_of_other_bytes_is_not_the_token(url: URL, value: str) -> None:
    cookie = f"isvc-dashboard-{url.port}={value}".encode("utf-8", "surrogatepass").replace(b"\xc3\xbf", b"\xff")
    async with aiohttp.ClientSession(url) as session:
        async with session.get("/", headers={"Cookie": cookie.decode("utf-8", "surrogateescape")}) as response:
            assert response.status == 403
        async with session.get(URL("/?token=%ff", encoded=True)) as response:
            assert response.status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/services/%ff/x", "/services/models/%ff", "/services/models/torchserve/log?pod=%ff&container=%00",
        "/services/models/torchserve/events?tab=%ff", "/services/models/torchserve/sample?protocol=%ff", "/%ff",
        "/assets/%ff",
    ],
)  # fmt: skip
async def test_a_path_of_other_bytes_is_not_found(viewer: aiohttp.ClientSession, path: str) -> None:
    async with viewer.get(URL(path, encoded=True)) as response:
        assert response.status in (400, 404)


async def test_a_model_of_other_bytes_is_asked_for_in_utf_8(viewer: aiohttp.ClientSession, source: FakeSource) -> None:
    source.respond = lambda _: ServiceResponse(status=200, headers={}, body=b"{}", seconds=0.1)
    async with viewer.get(URL(f"{PATH}/sample?model=%ff%ed%a0%80", encoded=True)) as response:
        assert response.status == 200
    assert source.requests[-1].path.isascii()
