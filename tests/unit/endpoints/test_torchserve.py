"""TorchServe's inference API, and the metrics of all that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from data_plane.health import State
from data_plane.limits import MAX_FORM_PARTS
from tests.unit.endpoints.asking import Answer, Server, error

if TYPE_CHECKING:
    from data_plane.model import Repository


@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    ("path", "version", "rest", "explains"),
    [
        ("/predictions/m", "1", "", False),
        ("/predictions/m/2", "2", "", False),
        ("/predictions/m/2/some/path", "2", "some/path", False),
        ("/explanations/m", "1", "", True),
        ("/explanations/m/2", "2", "", True),
        ("/models/m/invoke", "1", "", False),
        ("/invocations", "1", "", False),
        ("/invocations//", "1", "", False),
    ],
)
async def test_a_body_of_any_kind_reaches_the_model_and_its_answer_the_client(
    method: str, path: str, version: str, rest: str, explains: bool
) -> None:
    answer = await Server().ask(method, path, b"\x00any", content_type="image/png")

    assert answer == Answer(201, f"{version} image/png {rest} {explains} ".encode() + b"\x00any")
    assert (answer.headers["content-type"], answer.headers["x-of-handler"]) == ("text/plain", "yes")


@pytest.mark.parametrize("path", ["/invocations?model_name=m&k=%C3%BC&k=", "/models/m/invoke?model_name=m&k=%C3%BC&k="])
async def test_parameters_of_the_query_travel_beside_the_body(path: str) -> None:
    answer = await Server().ask("POST", path, b"any")

    assert answer.body.decode() == "1   False model_name=m k=ü k= any"


async def test_a_query_of_too_many_parameters_is_refused() -> None:
    answer = await Server().ask("POST", "/models/m/invoke?" + "&".join(["k=1"] * (MAX_FORM_PARTS + 1)))

    told = error(f"The query has more than {MAX_FORM_PARTS} parameters; send them in the body.")
    assert (answer.status, answer.document) == (400, told)


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
async def test_ping_is_answered_whatever_the_method(method: str) -> None:
    assert (await Server().ask(method, "/ping/")).document == {"status": "Healthy"}


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/predictions/x", 404, "Model with name x does not exist. Models served here: m, slow."),
        ("/predictions/m/3", 404, "Model with name m, version 3, does not exist. Models served here: m 1, m 2."),
        ("/explanations/slow", 503, "Model with name slow is not ready: it is loading."),
        ("/models/x/invoke", 404, "Model with name x does not exist. Models served here: m, slow."),
        ("/invocations?model_name=x", 404, "Model with name x does not exist. Models served here: m, slow."),
        ("/invocations", 400, "Name the model: /invocations?model_name=NAME. Models served here: m, slow."),
    ],
)
async def test_a_model_that_cannot_be_asked_is_told(path: str, status: int, message: str) -> None:
    answer = await Server(expected=("slow",)).ask("POST", path)

    assert (answer.status, answer.document) == (status, error(message))


async def test_ping_is_healthy_when_all_models_are_ready() -> None:
    server = Server(expected=("slow",))
    unhealthy = await server.ask("GET", "/ping")
    server.models.record("slow", State.READY)
    healthy = await server.ask("GET", "/ping")

    assert [(answer.status, answer.document) for answer in (unhealthy, healthy)] == [
        (500, {"status": "Unhealthy"}),
        (200, {"status": "Healthy"}),
    ]


async def test_requests_are_counted_by_route_never_by_path() -> None:
    server = Server()
    for path in ("/predictions/m", "/predictions/x", "/nowhere", "/nowhere/else"):
        await server.ask("POST", path)

    lines = (await server.ask("GET", "/metrics")).body.decode().splitlines()

    assert [line for line in lines if line.startswith("http_requests_total")] == [
        'http_requests_total{method="POST",route="/predictions/{model}",status="201"} 1.0',
        'http_requests_total{method="POST",route="/predictions/{model}",status="404"} 1.0',
        'http_requests_total{method="POST",route="none",status="404"} 2.0',
    ]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/models"), ("POST", "/models"), ("PUT", "/models/m"), ("DELETE", "/models/m/2"),
     ("PUT", "/models/m/2/set-default")],
)  # fmt: skip
@pytest.mark.parametrize(
    ("loads", "address", "there"),
    [
        (True, "http://127.0.0.1:8085",
         "the management API is at http://127.0.0.1:8085 in the pod; GET /v1/models lists the models."),
        (True, "",
         "models are loaded and unloaded by POST /v2/repository/models/<model>/load and …/unload, and GET /v1/models "
         "lists them."),
        (False, "",
         "models are not loaded or unloaded here; enable it with the argument --enable-model-api, or "
         "enable_model_api=true in config.properties. GET /v1/models lists them."),
    ],
)  # fmt: skip
async def test_a_path_of_the_management_api_says_how_models_are_managed(
    method: str, path: str, loads: bool, address: str, there: str
) -> None:
    server = Server()
    server.models.management_address = address
    if loads:
        server.models.repository = cast("Repository", object())  # which is not asked

    answer = await server.ask(method, path)

    assert (answer.status, answer.document) == (404, error(f"There is nothing at {path}: {there}"))


async def test_a_path_that_only_begins_like_the_management_api_is_any_other() -> None:
    answer = await Server().ask("GET", "/models/m/2/a/b/c")

    assert answer.document == error("There is nothing at /models/m/2/a/b/c; /docs lists the paths.")
