"""The form that sends a request."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from typing import Any

import aiohttp
import pytest
from yarl import URL

from isvc import limits
from isvc.dashboard.request import Split, labels_of, split_of
from isvc.dashboard.server import dashboard
from isvc.inference.protocol import InferenceProtocol
from isvc.view.source import ServiceRequest, ServiceResponse
from isvc_operator.manifests import ServiceKey
from tests.support.fake_services import FakeServices
from tests.support.fake_source import FakeSource, no_response
from tests.unit.dashboard.conftest import TOKEN, without_colors

PATH = "/services/models/torchserve"
TIMING = "queue;dur=1.000, batch;dur=0.500, model;dur=6.000, transport;dur=0.500"
METADATA = {"inputs": [{"name": "image", "datatype": "BYTES", "shape": [-1]}]}


def respond(request: ServiceRequest) -> ServiceResponse:
    if request.path == "/v1/models":
        return ServiceResponse(status=200, headers={}, body=b'{"models": ["bert"]}', seconds=0.001)
    if request.method == "GET":
        return ServiceResponse(status=200, headers={}, body=json.dumps(METADATA).encode(), seconds=0.001)
    return ServiceResponse(status=200, headers={"Server-Timing": TIMING}, body=b'{"predictions": [4]}', seconds=0.01)


@pytest.fixture
def source() -> FakeSource:
    source = FakeSource(FakeServices().ready())
    source.respond = respond
    return source


@pytest.fixture
def headers(url: URL) -> dict[str, str]:
    return {"Origin": str(url.origin()), "HX-Request": "true"}


async def test_the_form_has_the_models_and_a_sample(viewer: aiohttp.ClientSession) -> None:
    async with viewer.get(f"{PATH}/sample", params={"protocol": "v2"}) as response:
        text = await response.text()

    assert '<option value="bert" selected>' in text
    assert "/v2/models/bert/infer" in text
    assert "&#34;image&#34;" in text


async def test_the_form_begins_with_a_request_that_is_known_to_fit_where_the_model_says_nothing(
    source: FakeSource,
) -> None:
    async def known(key: ServiceKey) -> Mapping[str, tuple[InferenceProtocol, bytes]]:
        assert key == ServiceKey("models", "torchserve")
        return {"bert": (InferenceProtocol.V1, b'{"instances": [[3, 1]]}\n')}

    source.respond = lambda request: replace(respond(request), body=b'{"models": ["bert"], "inputs": []}')
    async with (
        dashboard(source, port=0, token=TOKEN, where="here", known=known) as address,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        async with session.get(address):
            pass
        forms = {}
        for protocol in ("v1", "v2"):
            async with session.get(URL(address).with_path(f"{PATH}/sample").with_query(protocol=protocol)) as response:
                forms[protocol] = unescape(await response.text())

    assert 'spellcheck="false">{"instances": [[3, 1]]}</textarea>' in forms["v1"]
    assert "does not say what it takes" not in forms["v1"]
    assert "does not say what it takes" in forms["v2"]


@pytest.mark.parametrize("status", [None, 503], ids=["nobody", "a proxy"])
async def test_of_a_service_that_does_not_serve_the_cause_is_shown_until_it_does(
    viewer: aiohttp.ClientSession, source: FakeSource, status: int | None
) -> None:
    source.put(FakeServices().failed("no such layer"))
    if status is None:
        source.respond = no_response
    else:
        source.respond = lambda _: ServiceResponse(status=status, headers={}, body=b"no endpoints", seconds=0.01)
    async with viewer.get(f"{PATH}/sample") as response:
        text = await response.text()

    assert "<b>ServerFailed</b> no such layer" in text
    assert "does not serve requests now" in text
    assert "<form" not in text

    source.respond = respond  # older pods may serve
    async with viewer.get(f"{PATH}/sample") as response:
        assert "<form" in await response.text()


async def test_a_request_is_sent_as_written_and_its_response_shown(
    viewer: aiohttp.ClientSession, source: FakeSource, headers: dict[str, str]
) -> None:
    fields = {"protocol": "v1", "model": "bert", "body": '{"instances": [1]}'}
    async with viewer.post(f"{PATH}/request", headers=headers, data=fields) as response:
        text = await response.text()

    sent = source.requests[-1]
    assert (sent.method, sent.path, sent.body) == ("POST", "/v1/models/bert:predict", b'{"instances": [1]}')
    assert sent.headers["X-Server-Timing"] == "1"
    assert "&#34;predictions&#34;" in text


async def test_a_file_is_sent_in_base64(
    viewer: aiohttp.ClientSession, source: FakeSource, headers: dict[str, str]
) -> None:
    form = aiohttp.FormData({"protocol": "v2", "model": "bert", "body": "unused"})
    form.add_field("file", b"\x89PNG", filename="digit.png")
    async with viewer.post(f"{PATH}/request", headers=headers, data=form) as response:
        assert response.status == 200

    tensor = {"name": "image", "datatype": "BYTES", "shape": [1], "data": [base64.b64encode(b"\x89PNG").decode()]}
    assert json.loads(source.requests[-1].body) == {"inputs": [tensor]}


async def test_the_name_of_a_model_stays_one_part_of_the_path(
    viewer: aiohttp.ClientSession, source: FakeSource, headers: dict[str, str]
) -> None:
    fields = {"protocol": "v1", "model": "../v2/repository?x#", "body": "{}"}
    async with viewer.post(f"{PATH}/request", headers=headers, data=fields) as response:
        assert response.status == 200

    assert source.requests[-1].path == "/v1/models/..%2Fv2%2Frepository%3Fx%23:predict"


async def test_a_request_that_is_too_large_is_refused(
    viewer: aiohttp.ClientSession, source: FakeSource, headers: dict[str, str]
) -> None:
    form = aiohttp.FormData()
    form.add_field("file", io.BytesIO(b"x" * (limits.DASHBOARD_REQUEST_BYTES + 1)), filename="large.png")
    async with viewer.post(f"{PATH}/request", headers=headers, data=form) as response:
        assert (response.status, source.requests) == (413, [])
        assert "larger than 16,777,216 bytes" in await response.text()


async def test_a_large_response_is_shown_in_part(
    viewer: aiohttp.ClientSession, source: FakeSource, headers: dict[str, str]
) -> None:
    size = limits.DASHBOARD_RESPONSE_BYTES
    source.respond = lambda request: ServiceResponse(status=200, headers={}, body=b"x" * (2 * size), seconds=0.01)
    async with viewer.post(f"{PATH}/request", headers=headers, data={"body": "{}"}) as response:
        text = await response.text()

    assert "x" * size in text
    assert "x" * (size + 1) not in text
    assert "256.0 KiB more are not shown" in text


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"a":[1.5,"\xc3\xa9 b"]}', '{\n  "a": [\n    1.5,\n    "\u00e9 b"\n  ]\n}'),
        (b'[1e999]', "[1e999]"),
        (b'[1.10]', "[1.10]"),
        (b'{"a":1,"a":2}', '{"a":1,"a":2}'),
        (b'["\\u00e9"]', '["\\u00e9"]'),
        (b'[1, 2', "[1, 2"),
    ],
    ids=["indented", "infinite", "a zero", "a key twice", "an escape", "no JSON"],
)  # fmt: skip
async def test_json_is_indented_only_where_nothing_else_changes(
    viewer: aiohttp.ClientSession, source: FakeSource, headers: dict[str, str], body: bytes, shown: str
) -> None:
    source.respond = lambda _: ServiceResponse(status=200, headers={}, body=body, seconds=0.01)
    form = {"protocol": "v1", "model": "bert", "body": "{}"}
    async with viewer.post(f"{PATH}/request", data=form, headers=headers) as response:
        text = unescape(without_colors(await response.text()))

    assert f">{shown}</pre>" in text


async def test_a_service_that_does_not_respond_says_why(
    viewer: aiohttp.ClientSession, headers: dict[str, str], source: FakeSource
) -> None:
    source.respond = FakeSource().respond
    async with viewer.post(f"{PATH}/request", headers=headers, data={"body": "{}"}) as response:
        assert "the service does not respond; it is starting" in await response.text()


async def test_a_protocol_that_there_is_not_is_refused(viewer: aiohttp.ClientSession, headers: dict[str, str]) -> None:
    async with viewer.post(f"{PATH}/request", headers=headers, data={"protocol": "v9"}) as response:
        assert response.status == 400
        assert "choose v1 or v2" in await response.text()


def test_the_parts_of_the_time_add_up_to_it() -> None:
    splits = split_of(ServiceResponse(status=200, headers={"server-timing": TIMING}, body=b"", seconds=0.01))

    assert [(split.name, round(split.share, 6)) for split in splits] == [
        ("queue", 10), ("batch", 5), ("model", 60), ("transport", 5), ("network", 20),
    ]  # fmt: skip
    assert sum(split.seconds for split in splits) == pytest.approx(0.01)
    assert splits[2] == Split("model", "in the model", 0.006, pytest.approx(15), pytest.approx(60))


@pytest.mark.parametrize("header", ["", "x", "queue;dur=1.2.3", "queue;desc=a"])
def test_without_a_time_split_nothing_is_made_up(header: str) -> None:
    assert split_of(ServiceResponse(status=200, headers={"Server-Timing": header}, body=b"", seconds=1)) == ()


@pytest.mark.parametrize(
    ("predictions", "labels"),
    [
        ([{"lynx": 0.1, "tabby": 0.8, "tiger": 0.1}], [("tabby", 0.8), ("lynx", 0.1), ("tiger", 0.1)]),
        ([[0.25, 0.75]], [("class 1", 0.75), ("class 0", 0.25)]),
        ([{str(number): 0.1 for number in range(9)}], [(str(number), 0.1) for number in range(5)]),
        ([[2.5, 0.5]], []),
        ([[0.9, 0.9]], []),
        ([[1, 0]], []),
        ([{"tabby": 0.8}], []),
        ([4], []),
        ([], []),
    ],
    ids=["labels", "numbers", "many", "logits", "scores", "integers", "one", "a class", "nothing"],
)
def test_probabilities_are_shown_with_their_labels_the_likeliest_first(
    predictions: list[Any], labels: list[tuple[str, float]]
) -> None:
    assert [*labels_of(json.dumps({"predictions": predictions}).encode())] == labels
