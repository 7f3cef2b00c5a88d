"""The v1 protocol over HTTP."""

from __future__ import annotations

import base64
import gzip
import re

import orjson
import pytest

from data_plane.health import State
from tests.unit.endpoints.asking import RecordingModel, Server, error

INSTANCES = b'{"instances": [[1, 2], [3, 4]]}'


async def test_a_request_without_an_id_is_given_one() -> None:
    server = Server()

    answers = [await server.ask("POST", "/v1/models/m:predict", INSTANCES, x_request_id="") for _ in range(2)]

    ids = [answer.headers["x-request-id"] for answer in answers]
    assert ids == [call.id for call in server.model.calls]
    assert len(set(ids)) == 2


@pytest.mark.parametrize("asked", ["1", ""])
async def test_the_times_of_a_request_are_told_to_who_asks(asked: str) -> None:
    server = Server()

    told = await server.ask("POST", "/v1/models/m:predict", INSTANCES, x_server_timing=asked)
    untold = await server.ask("POST", "/v1/models/m:predict", INSTANCES)

    assert told.headers["server-timing"] == "model;dur=1.500"
    assert "server-timing" not in untold.headers


async def test_a_lone_model_answers_to_the_services_name_too() -> None:
    server = Server(RecordingModel(), alias="service")

    answer = await server.ask("POST", "/v1/models/service:predict", INSTANCES)
    status = await server.ask("GET", "/v1/models/service")

    assert (answer.status, status.document) == (200, {"name": "m", "ready": True})


async def test_with_several_models_the_services_name_means_none() -> None:
    server = Server(RecordingModel(), RecordingModel(name="n"), alias="service")

    assert (await server.ask("GET", "/v1/models/service")).status == 404


@pytest.mark.parametrize("verb", ["predict", "explain"])
async def test_a_model_that_is_not_ready_says_why_and_when_to_come_back(verb: str) -> None:
    server = Server(expected=("slow",))

    answer = await server.ask("POST", f"/v1/models/slow:{verb}", INSTANCES)

    assert (answer.status, answer.document) == (503, error("Model with name slow is not ready: it is loading."))
    assert answer.headers["retry-after"] == "1"


async def test_a_model_that_recovers_takes_requests_and_is_not_ready() -> None:
    server = Server()
    server.models.record("m", State.RECOVERING, "lost its worker")

    assert (await server.ask("POST", "/v1/models/m:predict", INSTANCES)).status == 200
    assert (await server.ask("GET", "/v1/models/m")).status == 503
    assert (await server.ask("GET", "/v2/health/ready")).document == {
        "ready": False,
        "models": {"m": "lost its worker"},
    }
    server.models.record("m", State.READY)
    assert (await server.ask("GET", "/v2/health/ready")).document == {"ready": True}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("model", ["m", "unknown"])
@pytest.mark.parametrize(
    "path",
    [
        "/predictions/{}", "/v1/models/{}", "/v1/models/{}:predict", "/v1/models/{}:infer", "/v1/models/{}/predict",
        "/v2/models/{}", "/v2/models/{}/infer", "/v2/models/{}:predict", "/v2/models/{}/predict",
    ],
)  # fmt: skip
@pytest.mark.parametrize("slash", ["", "/"])
async def test_no_advice_names_the_path_that_was_asked(method: str, model: str, path: str, slash: str) -> None:
    asked = path.format(model)

    answer = await Server().ask(method, asked + slash, PICTURE if method == "POST" else b"")

    if answer.status >= 400:
        said = answer.document["error"].replace("<model>", model)
        places = re.findall(r"/[\w/:]+", re.sub(r"(is not allowed on|There is nothing at) \S+", "", said))
        assert asked not in [place.rstrip("/") for place in places]


# --- What is not JSON -----------------------------------------------------------------------------------

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
BOUNDARY = b"--0f8fad5b"
FORM = BOUNDARY + b'\r\nContent-Disposition: form-data; name="data"; filename="a.png"\r\n\r\n' + PICTURE
AS_A_FILE = (
    'A handler gets a file as it is from /predictions/<model>, or as {"instances": [{"data": "<base64>"}]}; a model '
    "without a handler takes numbers."
)


@pytest.mark.parametrize("path", ["/v1/models/m:predict", "/v1/models/m:explain", "/v2/models/m/infer"])
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (PICTURE, "image/png"),
        (b"\xff\xd8\xff\xe0" + b"[" * 600_000, "image/jpeg"),
        (PICTURE, "application/octet-stream"),
        (PICTURE, "application/json"),  # as curl -H "Content-Type: application/json" sends whatever it is given
        (FORM, f"multipart/form-data; boundary={BOUNDARY.decode()}"),
        (b"data=%89PNG", "application/x-www-form-urlencoded"),
        (b"a sentence", "text/plain"),
    ],
)
async def test_a_file_is_answered_with_where_to_send_it_and_is_taken_there(
    path: str, body: bytes, content_type: str
) -> None:
    server = Server()

    refused = await server.ask("POST", path, body, content_type=content_type)
    instance = {"b64": base64.b64encode(body).decode()}
    taken = [
        await server.ask("POST", "/predictions/m", body, content_type=content_type),
        await server.ask("POST", "/v1/models/m:predict", orjson.dumps({"instances": [instance]})),
    ]

    assert refused.status == 400
    assert refused.document["error"].endswith(f" {AS_A_FILE}")
    assert [answer.status for answer in taken] == [201, 200]
    assert taken[0].body.endswith(body)


@pytest.mark.parametrize("path", ["/v1/models/m:predict", "/v2/models/m/infer"])
@pytest.mark.parametrize(
    "body", [b'{"instances": [1', b"[1,]", b"", b'\xef\xbb\xbf{"a', '{"instances": [1]}'.encode("utf-16")]
)
async def test_json_that_is_broken_is_no_file(path: str, body: bytes) -> None:
    refused = await Server().ask("POST", path, body)

    assert refused.status == 400
    assert AS_A_FILE not in refused.document["error"]


# --- CloudEvents -------------------------------------------------------------------------------------

ATTRIBUTES = {"specversion": "1.0", "id": "42", "source": "/camera", "type": "image"}


async def test_a_binary_event_is_answered_by_one() -> None:
    headers = {f"ce_{name}": value for name, value in ATTRIBUTES.items()}

    answer = await Server().ask("POST", "/v1/models/m:predict", INSTANCES, **headers)

    attributes = {name: value for name, value in answer.headers.items() if name.startswith("ce-")}
    attributes.pop("ce-time")
    assert attributes.pop("ce-id") != "42"
    assert answer.document == {"predictions": [[1, 2], [3, 4]]}
    assert attributes == {
        "ce-specversion": "1.0",
        "ce-source": "io.kserve.inference.m",
        "ce-type": "io.kserve.inference.response",
    }


@pytest.mark.parametrize("content_type", ["application/json", "", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("verb", ["predict", "explain"])
async def test_an_event_that_no_header_calls_one_is_answered_in_plain_json(content_type: str, verb: str) -> None:
    event = orjson.dumps({**ATTRIBUTES, "time": "2030-01-01T00:00:00Z", "data": orjson.loads(INSTANCES)})

    answer = await Server().ask("POST", f"/v1/models/m:{verb}", event, content_type=content_type)

    key = {"predict": "predictions", "explain": "explanations"}[verb]
    assert (answer.status, answer.document) == (200, {key: [[1, 2], [3, 4]]})
    assert answer.headers.keys() == {"content-type", "content-length", "x-request-id"}


# --- what is encoded ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/models/m:predict", "/v2/models/m/infer"])
@pytest.mark.parametrize("content_type", ["application/json", "application/cloudevents+json"])
async def test_a_compressed_body_is_refused_with_what_to_do(path: str, content_type: str) -> None:
    body = gzip.compress(INSTANCES)

    answer = await Server().ask("POST", path, body, content_encoding="gzip", content_type=content_type)

    message = "The request body is encoded (Content-Encoding: gzip); send it as it is, uncompressed."
    assert (answer.status, answer.document) == (415, error(message))
