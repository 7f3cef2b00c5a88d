"""The v2 protocol over HTTP, with its repository extension."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
import orjson
import pytest

from data_plane.errors import InferenceFailed, QueueFull, UnprocessableInput, UpstreamBroken
from data_plane.health import State
from data_plane.limits import MAX_ERROR_TEXT
from data_plane.model import Call
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from tests.unit.endpoints.asking import RecordingModel, Server, doubled, error

INPUT = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
LENGTH = "inference_header_content_length"


def body(**fields: Any) -> bytes:
    return orjson.dumps({"inputs": [INPUT], **fields})


async def test_a_request_without_an_id_is_answered_with_that_of_its_header() -> None:
    assert (await Server().ask("POST", "/v2/models/m/infer", body())).document["id"] == "7"


async def test_tensors_travel_as_memory_both_ways_where_the_client_likes() -> None:
    described = {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    text = orjson.dumps({"inputs": [described], "parameters": {"binary_data_output": True}})
    memory = np.array([1, 2], np.float32).tobytes()

    answer = await Server().ask("POST", "/v2/models/m/infer", text + memory, **{LENGTH: str(len(text))})

    length = int(answer.headers["inference-header-content-length"])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert orjson.loads(answer.body[:length])["outputs"][0]["parameters"] == {"binary_data_size": 8}
    assert np.frombuffer(answer.body[length:], np.float32).tolist() == [2, 4]


@pytest.mark.parametrize("value", ["-1", "ten", "1.5", "²", "9" * 5000, "0" * 5000])
async def test_a_length_of_the_json_that_cannot_be_is_refused(value: str) -> None:
    sent = body()

    answer = await Server().ask("POST", "/v2/models/m/infer", sent, **{LENGTH: value})

    assert answer.status == 400
    assert answer.document["error"].endswith("; it must be a number of bytes up to the body's.")
    assert len(answer.document["error"]) < 200


async def test_so_are_those_of_a_request_that_failed() -> None:
    async def fail(_: TensorRequest, call: Call) -> TensorResponse:
        call.timings["queue"] = 0.25
        raise InferenceFailed("no")

    server = Server(RecordingModel(fail))

    failed = await server.ask("POST", "/v2/models/m/infer", body(), x_server_timing="1")
    lost = await server.ask("POST", "/v2/models/x/infer", body(), x_server_timing="1")

    assert (failed.status, failed.headers["server-timing"]) == (500, "queue;dur=250.000")
    assert (lost.status, lost.headers.get("server-timing")) == (404, None)


@pytest.mark.parametrize(
    ("raised", "status", "component", "retry_after"),
    [
        (UnprocessableInput("no"), 422, "model", None),
        (QueueFull("m", 9), 429, "queue", "1"),
        (InferenceFailed("no"), 500, "model", None),
        (InferenceFailed("no", 507), 507, "model", None),
        (UpstreamBroken("no"), 502, "server", None),
        (KeyError("no"), 500, "server", None),
    ],
)
async def test_what_a_model_raises_becomes_its_status(
    raised: Exception, status: int, component: str, retry_after: str | None
) -> None:
    async def fail(_: TensorRequest, __: Call) -> TensorResponse:
        raise raised

    answer = await Server(RecordingModel(fail)).ask("POST", "/v2/models/m/infer", body())

    assert (answer.status, answer.document["component"]) == (status, component)
    assert answer.headers.get("retry-after") == retry_after


async def test_the_length_of_the_json_is_that_in_the_data_of_a_structured_event() -> None:
    described = {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    text = orjson.dumps({"inputs": [described], "parameters": {"binary_data_output": True}})
    data = base64.b64encode(text + np.array([1, 2], np.float32).tobytes()).decode()
    event = {"specversion": "1.0", "id": "42", "source": "/camera", "type": "image", "data_base64": data}
    headers = {"content_type": "application/cloudevents+json", LENGTH: str(len(text))}

    answer = await Server().ask("POST", "/v2/models/m/infer", orjson.dumps(event), **headers)

    length = int(answer.headers["inference-header-content-length"])
    answered = base64.b64decode(answer.document["data_base64"])
    assert orjson.loads(answered[:length])["outputs"][0]["parameters"] == {"binary_data_size": 8}
    assert np.frombuffer(answered[length:], np.float32).tolist() == [2, 4]


# --- what there is -----------------------------------------------------------------------------------


async def test_a_server_that_is_not_ready_says_why() -> None:
    server = Server(expected=("slow",))
    loading = await server.ask("GET", "/v2/health/ready")
    server.models.record("slow", State.READY)
    ready = await server.ask("GET", "/v2/health/ready")
    server.models.draining = True
    draining = await server.ask("GET", "/v2/health/ready")

    assert [(answer.status, answer.document) for answer in (loading, ready, draining)] == [
        (503, {"ready": False, "models": {"slow": "is loading"}}),
        (200, {"ready": True}),
        (503, {"ready": False, "reason": "the server is shutting down"}),
    ]


@pytest.mark.parametrize("path", ["/v2/models/m", "/v2/models/m/versions/2"])
async def test_a_model_says_what_it_takes(path: str) -> None:
    assert (await Server().ask("GET", path)).document == {
        "name": "m",
        "versions": ["1", "2"],
        "platform": "fake",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
        "outputs": [],
    }


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("m/ready", 200, {"name": "m", "ready": True}),
        ("m/versions/2/ready", 200, {"name": "m", "ready": True}),
        ("slow/ready", 503, {"name": "slow", "ready": False, "reason": "is loading"}),
    ],
)
async def test_readiness_is_told_by_model_and_version(path: str, status: int, told: dict[str, object]) -> None:
    answer = await Server(expected=("slow",)).ask("GET", f"/v2/models/{path}")

    assert (answer.status, answer.document) == (status, told)


async def test_a_model_that_is_given_up_says_why_and_the_server_goes_on_for_the_others() -> None:
    server = Server()
    server.models.record("bad", State.FAILED, "is given up: its worker keeps dying")

    ready = await server.ask("GET", "/v2/health/ready")
    own = [await server.ask("GET", path) for path in ("/v2/models/bad/ready", "/v1/models/bad")]
    asked = await server.ask("POST", "/v1/models/bad:predict", b'{"instances": [1]}')
    index = await server.ask("POST", "/v2/repository/index")

    reason = "is given up: its worker keeps dying"
    assert (ready.status, ready.document) == (200, {"ready": True})
    assert [(answer.status, answer.document) for answer in own] == [
        (503, {"name": "bad", "ready": False, "reason": reason})
    ] * 2
    assert (asked.status, asked.document["error"]) == (503, f"Model with name bad is not ready: it {reason}.")
    assert index.document[-1] == {"name": "bad", "version": "", "state": "UNAVAILABLE", "reason": reason}
    server.models.remove("bad")
    assert server.models.names == ("m",)


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/infer"), ("GET", "/ready"), ("GET", "")], ids=["infer", "ready", "metadata"]
)
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("x", "Model with name x does not exist. Models served here: m."),
        ("m/versions/3", "Model with name m, version 3, does not exist. Models served here: m 1, m 2."),
    ],
)
async def test_a_model_or_version_that_is_not_there_is_told(method: str, path: str, model: str, message: str) -> None:
    answer = await Server().ask(method, f"/v2/models/{model}{path}", body())

    assert (answer.status, answer.document) == (404, error(message))


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v2/models/m/infer", "OPTIONS, POST"),
        ("POST", "/v2/health/live", "GET, HEAD"),
        ("GET", "/v2/repository/index", "POST"),
    ],
)
async def test_other_methods_are_refused(method: str, path: str, allowed: str) -> None:
    answer = await Server().ask(method, path)

    assert (answer.status, answer.headers["allow"]) == (405, allowed)


# --- the repository ----------------------------------------------------------------------------------


async def test_the_index_names_every_version_and_its_state() -> None:
    server = Server(expected=("slow", "lost"))
    server.models.record("lost", State.UNREADY, "lost its worker")

    assert (await server.ask("POST", "/v2/repository/index")).document == [
        {"name": "slow", "version": "", "state": "LOADING", "reason": "is loading"},
        {"name": "lost", "version": "", "state": "UNAVAILABLE", "reason": "lost its worker"},
        {"name": "m", "version": "1", "state": "READY", "reason": ""},
        {"name": "m", "version": "2", "state": "READY", "reason": ""},
    ]


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        (b'{"ready": true}', ["m", "m"]),
        (b'{"ready": false}', ["slow", "m", "m"]),
        (b"{}", ["slow", "m", "m"]),
        (b"", ["slow", "m", "m"]),
    ],
)
async def test_the_index_names_only_ready_models_where_that_is_asked_for(sent: bytes, named: list[str]) -> None:
    answer = await Server(expected=("slow",)).ask("POST", "/v2/repository/index", sent)

    assert [entry["name"] for entry in answer.document] == named


async def test_a_wish_for_the_index_that_cannot_be_read_is_refused() -> None:
    answer = await Server().ask("POST", "/v2/repository/index", b'{"ready": 1}')

    told = (
        'The request body cannot be read: Expected `bool`, got `int` - at `$.ready`; send {"ready": true}, or nothing.'
    )
    assert (answer.status, answer.document) == (400, error(told))


@pytest.mark.parametrize("verb", ["load", "unload"])
async def test_without_a_repository_nothing_is_loaded(verb: str) -> None:
    answer = await Server().ask("POST", f"/v2/repository/models/m/{verb}")

    assert (answer.status, answer.document) == (
        501,
        error(
            "This server does not load or unload models while it runs; enable it with the argument "
            "--enable-model-api, or enable_model_api=true in config.properties."
        ),
    )


@pytest.mark.parametrize("verb", ["load", "unload"])
@pytest.mark.parametrize(
    ("client", "is_local"),
    [
        ("127.0.0.1", True), ("127.0.0.6", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False), ("::ffff:10.0.0.1", False), ("fe80::1%eth0", False), ("", False),
    ],
)  # fmt: skip
async def test_models_are_loaded_and_unloaded_from_within_the_pod_only(verb: str, client: str, is_local: bool) -> None:
    server = Server()
    server.client = client
    server.models.repository = repository = RecordingRepository()

    answer = await server.ask("POST", f"/v2/repository/models/m/{verb}")

    if is_local:
        assert (answer.status, answer.document, repository.done) == (200, {"name": "m", verb: True}, [f"{verb} m"])
    else:
        told = (
            "Models are loaded and unloaded from within the pod only; send the request to 127.0.0.1 there, or through "
            "kubectl port-forward."
        )
        assert (answer.status, answer.document, repository.done) == (403, error(told), [])


class RecordingRepository:
    def __init__(self) -> None:
        self.done: list[str] = []

    async def load(self, name: str) -> None:
        self.done.append(f"load {name}")

    async def unload(self, name: str) -> None:
        self.done.append(f"unload {name}")


async def test_a_model_that_is_removed_is_gone_for_all() -> None:
    server = Server(RecordingModel(doubled), expected=("slow",))
    server.models.remove("slow")
    server.models.remove("m")

    assert (await server.ask("POST", "/v2/repository/index")).document == []
    assert (await server.ask("POST", "/v2/models/m/infer", body())).document == error(
        "Model with name m does not exist. Models served here: none."
    )


async def test_a_server_is_not_ready_when_its_last_model_is_removed_until_there_is_one_again() -> None:
    server = Server(RecordingModel(doubled), RecordingModel(doubled, name="n"))
    ready = [await server.ask("GET", "/v2/health/ready")]
    for name in ("m", "n"):
        server.models.remove(name)
        ready.append(await server.ask("GET", "/v2/health/ready"))
    server.models.add(RecordingModel(doubled))
    ready.append(await server.ask("GET", "/v2/health/ready"))

    without = (503, {"ready": False, "reason": "every model has been unloaded"})
    assert [(answer.status, answer.document) for answer in ready] == [
        (200, {"ready": True}),
        (200, {"ready": True}),
        without,
        (200, {"ready": True}),
    ]


async def test_an_error_quotes_a_bounded_part_of_the_request() -> None:
    name = "\n" * 100_000

    answer = await Server().ask("POST", "/v2/models/m/infer", body(inputs=[{**INPUT, "name": name, "shape": [7]}]))

    message = answer.document["error"]
    assert (answer.status, len(message) < MAX_ERROR_TEXT + 100) == (400, True)
    assert re.search(r"… \(1000\d\d characters\)$", message)
