"""The OpenAPI document that says what a server offers."""

from __future__ import annotations

from typing import Any

import pytest

from data_plane import __version__
from tests.unit.endpoints.asking import Server, error

MODEL = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
VERSION = {**MODEL, "name": "version"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api-description"), ("GET", "/api-description/"), ("OPTIONS", "/api-description"), ("OPTIONS", "/")],
)
async def test_the_server_describes_every_path_of_every_protocol(method: str, path: str) -> None:
    document: Any = (await Server().ask(method, path)).document

    assert (document["openapi"], document["info"]) == ("3.0.1", {"title": "isvc-operator", "version": __version__})
    methods = {path: sorted(operations) for path, operations in document["paths"].items()}
    assert (
        methods.items()
        >= {
            "/v1/models/{model}:predict": ["post"],
            "/v2/models/{model}/versions/{version}/infer": ["post"],
            "/v2/health/ready": ["get"],
            "/metrics": ["get"],
            "/predictions/{model}/{version}/{path}": ["delete", "get", "patch", "post", "put"],
        }.items()
    )
    predict = document["paths"]["/predictions/{model}/{version}"]["post"]
    assert (predict["operationId"], predict["parameters"]) == ("post_predictions_model_version", [MODEL, VERSION])
    assert predict["requestBody"] == {"content": {"*/*": {"schema": {}}}}


async def test_no_two_operations_have_one_id() -> None:
    document: Any = (await Server().ask("GET", "/api-description")).document

    ids = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "path",
    ["/predictions/m", "/predictions/m/2", "/explanations/m", "/models/m/invoke", "/v1/models/m:predict",
     "/v2/models/m/infer"],
)  # fmt: skip
async def test_a_model_is_described_by_its_own_paths(path: str) -> None:
    document: Any = (await Server().ask("OPTIONS", path)).document

    assert document["info"]["title"] == "m"
    assert document["paths"]["/predictions/m/{version}"]["post"]["parameters"] == [VERSION]
    assert {path for path in document["paths"] if "{model}" in path or "/m" not in path} == set()


async def test_a_model_that_is_not_there_has_no_description() -> None:
    answer = await Server().ask("OPTIONS", "/predictions/x")

    told = error("Model with name x does not exist. Models served here: m.")
    assert (answer.status, answer.document) == (404, told)
