"""What browsers are told, where config.properties says which origins may ask."""

from __future__ import annotations

from typing import Any

import pytest

from data_plane.errors import UnreadableRequest
from data_plane.messages import Response
from data_plane.model_server.errors import ConfigurationError
from tests.support.fake_models import FakeModel
from tests.unit.endpoints.asking import Server
from torchserve_compat.store.settings import cors_headers

ORIGIN = "https://pages.example"
SETTINGS = {
    "cors_allowed_origin": ORIGIN, "cors_allowed_methods": "GET, POST", "cors_allowed_headers": "content-type",
}  # fmt: skip
TOLD = {
    "access-control-allow-origin": ORIGIN,
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type",
}


class OwnOrigin(FakeModel):
    """A handler that says itself who may read its answers."""

    async def raw(self, *_: object, **__: object) -> Response:
        return Response(b"", headers=((b"access-control-allow-origin", b"https://own.example"),))


def told(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize("value", ["https://☃.example", "https://a.example\r\nx-more: 1"])
def test_a_value_that_no_header_can_hold_is_named(value: str) -> None:
    with pytest.raises(ConfigurationError, match="which no header can hold; write printable Latin"):
        cors_headers({"cors_allowed_origin": value})


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/models", 200), ("POST", "/predictions/m", 201), ("GET", "/no", 404)]
)
async def test_every_answer_says_who_may_read_it(method: str, path: str, status: int) -> None:
    answer = await Server(cors=cors_headers(SETTINGS)).ask(method, path, origin=ORIGIN)

    assert (answer.status, told(answer.headers)) == (status, TOLD)


async def test_a_browser_that_asks_before_it_sends_is_answered_whatever_the_path() -> None:
    answer = await Server(cors=cors_headers(SETTINGS)).ask("OPTIONS", "/v1/models/m:predict", origin=ORIGIN)

    assert (answer.status, answer.body, told(answer.headers)) == (200, b"", TOLD)


async def test_its_body_is_not_waited_for() -> None:
    server = Server(cors=cors_headers(SETTINGS))

    answer = await server.ask("OPTIONS", "/ping", expect="100-continue", content_length="17")

    assert answer.headers == {"content-length": "0", "connection": "close", **TOLD}


async def test_what_a_handler_says_of_its_own_answer_stays() -> None:
    answer = await Server(OwnOrigin(), cors=cors_headers(SETTINGS)).ask("POST", "/predictions/m")

    assert told(answer.headers) == {**TOLD, "access-control-allow-origin": "https://own.example"}


def test_what_cannot_be_read_as_a_request_is_answered_alike() -> None:
    _, headers = Server(cors=cors_headers(SETTINGS)).app.refuse(UnreadableRequest("no HTTP"), ())

    assert told({name.decode(): value.decode() for name, value in headers}) == TOLD


async def test_only_what_is_set_is_told() -> None:
    properties = {"cors_allowed_origin": " * ", "cors_allowed_methods": ""}

    answer = await Server(cors=cors_headers(properties)).ask("GET", "/ping")

    assert told(answer.headers) == {"access-control-allow-origin": "*"}


async def test_without_settings_browsers_are_told_nothing() -> None:
    server = Server(cors=cors_headers({}))

    for method in ("GET", "OPTIONS"):
        assert told((await server.ask(method, "/ping")).headers) == {}
    assert (await server.ask("OPTIONS", "/v2/health/ready")).status == 405
