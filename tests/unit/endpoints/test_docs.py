"""What a server says to people: the OpenAPI of the models that it serves, and a page of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from data_plane.messages import Request, Response, json_response
from data_plane.protocol.v2.requests import ModelMetadata, TensorMetadata
from data_plane.server.endpoints.description import document
from data_plane.server.endpoints.docs import page
from data_plane.server.routing import Route
from tests.support.fake_models import FakeModel
from tests.unit.endpoints.asking import Server, doubled

TENSOR = {"name": "x", "datatype": "FP32", "shape": [-1, 2]}


async def nothing(_: Request) -> Response:
    return json_response({})


def described(*inputs: dict[str, Any], name: str = "m") -> dict[str, Any]:
    templates = ("/v1/models/{model}:predict", "/v2/models/{model}/infer")
    return document("Models", [Route("POST", template, nothing) for template in templates], {name: inputs})


async def test_every_path_of_each_model_is_described_with_its_own_name() -> None:
    found: Any = (await Server().ask("GET", "/openapi.json")).document

    paths = found["paths"]
    assert found["openapi"] == "3.0.1"
    assert {"/v1/models/m:predict", "/v2/models/m/infer", "/v2/models/m/versions/{version}/infer", "/metrics"} <= {
        *paths
    }
    assert [path for path in paths if "{model}" in path] == []


def test_a_body_of_v2_has_the_models_inputs_and_an_example() -> None:
    infer = described(TENSOR)["paths"]["/v2/models/m/infer"]["post"]["requestBody"]

    assert infer["description"] == "x: FP32 [-1, 2]"
    assert infer["content"]["application/json"]["example"] == {"inputs": [{**TENSOR, "shape": [1, 2], "data": [0, 0]}]}


async def test_the_paths_are_beside_the_document_wherever_an_ingress_serves_it() -> None:
    assert (await Server().ask("GET", "/openapi.json")).document["servers"] == [{"url": "."}]


class Scripted(FakeModel):
    async def metadata(self) -> ModelMetadata:
        inputs = TensorMetadata("x", "FP32", (-1,)), TensorMetadata("rate", "FP32", ())
        return ModelMetadata(self.name, (self.version,), "pytorch_torchscript", inputs, ())


async def test_of_a_model_that_says_no_more_than_names_there_is_no_example() -> None:
    found: Any = (await Server(Scripted(doubled)).ask("GET", "/openapi.json")).document

    infer = found["paths"]["/v2/models/m/infer"]["post"]["requestBody"]
    nothing = "the model does not say what it holds"
    assert (infer["description"], "example" in infer["content"]["application/json"]) == (
        f"x: {nothing}; rate: {nothing}",
        False,
    )


@pytest.mark.parametrize("inputs", [[], [{**TENSOR, "shape": [3, 224, 224]}]])
def test_without_inputs_and_with_many_values_there_is_no_example(inputs: list[dict[str, Any]]) -> None:
    infer = described(*inputs)["paths"]["/v2/models/m/infer"]["post"]["requestBody"]

    assert "example" not in infer["content"]["application/json"]


def test_a_body_of_v1_has_instances() -> None:
    predict = described()["paths"]["/v1/models/m:predict"]["post"]["requestBody"]

    assert predict["content"]["application/json"]["schema"]["required"] == ["instances"]


def test_the_page_shows_the_same_and_runs_nothing() -> None:
    name = "<script>"
    shown = "".join(page(described(TENSOR, name=name), {name: False}))

    assert "<b>&lt;script&gt;</b> is not ready" in shown
    assert '<code>{"inputs": […]}</code> x: FP32 [-1, 2]' in shown
    assert "&quot;data&quot;:[0,0]" in shown
    assert "<script" not in shown


@pytest.mark.parametrize(
    ("dashboard", "link"),
    [('http://127.0.0.1:1/"', '<a href="http://127.0.0.1:1/&quot;">Dashboard</a>'), ("http://example.com/", "")],
)
async def test_the_page_links_to_the_dashboard_of_this_machine_alone(dashboard: str, link: str) -> None:
    page = (await Server().ask("GET", "/docs", **{"x-isvc-dashboard": dashboard})).body.decode()

    assert re.findall(r"<a [^>]*>Dashboard</a>", page) == [*filter(None, [link])]


async def test_a_browser_gets_the_page_at_the_root_and_a_client_whether_the_server_lives() -> None:
    server = Server()
    browser = await server.ask("GET", "/", accept="text/html,application/xhtml+xml,*/*;q=0.8")
    docs = await server.ask("GET", "/docs")

    assert browser.body == docs.body
    assert browser.headers["content-type"] == "text/html; charset=utf-8"
    assert (await server.ask("GET", "/", accept="*/*")).document == {"status": "alive"}


class Handled(FakeModel):
    async def metadata(self) -> ModelMetadata:
        return ModelMetadata(self.name, (self.version,), "pytorch_torchserve", (), ())


def titles(page: bytes) -> list[str]:
    return re.findall(r"<h3><code>(.*?)</code>", page.decode())


async def test_the_first_path_of_a_model_with_a_handler_is_torchserves_with_examples() -> None:
    handled = (await Server(Handled(doubled)).ask("GET", "/docs")).body
    other = (await Server().ask("GET", "/docs")).body

    of_tensors = ["POST /v1/models/m:predict", "POST /v2/models/m/infer"]
    assert (titles(handled), titles(other)) == (["POST /predictions/m", *of_tensors], of_tensors)
    assert (
        "<p>Body: what the handler reads, such as a file or a text</p><pre>curl $URL/predictions/m -T FILE\n"
        "curl $URL/predictions/m -H 'Content-Type: text/plain' -d 'a text'</pre>"
    ) in handled.decode()


async def test_a_path_on_which_all_methods_are_the_same_is_shown_with_one() -> None:
    page = (await Server().ask("GET", "/docs")).body.decode()

    assert re.findall(r"<code>([A-Z ]+) (/ping|/predictions/m|/invocations|/v1/models)</code>", page) == [
        ("GET", "/v1/models"), ("GET", "/ping"), ("POST", "/predictions/m"), ("POST", "/invocations")
    ]  # fmt: skip
    assert re.findall(r'<a href="(ping|predictions/m)">', page) == ["ping"]
