"""The v1 protocol over HTTP."""

from __future__ import annotations

import gzip

import orjson
import pytest

from data_plane.health import Event
from tests.support.fake_models import FakeModel
from tests.unit.endpoints.asking import RecordingModel, Server, error

INSTANCES = b'{"instances": [[1, 2], [3, 4]]}'


@pytest.mark.parametrize(("verb", "key"), [("predict", "predictions"), ("explain", "explanations")])
async def test_instances_are_answered(verb: str, key: str) -> None:
    answer = await Server().ask("POST", f"/v1/models/m:{verb}", INSTANCES)

    assert (answer.status, answer.document) == (200, {key: [[1, 2], [3, 4]]})
    assert answer.headers == {
        "content-type": "application/json",
        "content-length": str(len(answer.body)),
        "x-request-id": "7",
    }


async def test_the_model_learns_of_the_request_what_it_needs() -> None:
    server = Server()

    await server.ask("POST", "/v1/models/m:predict", INSTANCES, x_user="me")

    (call,) = server.model.calls
    assert (call.id, call.headers) == ("7", ((b"x-request-id", b"7"), (b"x-user", b"me")))


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


async def test_models_are_listed_ready_or_not() -> None:
    server = Server(expected=("slow",))

    assert (await server.ask("GET", "/v1/models")).document == {"models": ["slow", "m"]}
    ready, slow = await server.ask("GET", "/v1/models/m"), await server.ask("GET", "/v1/models/slow")
    assert (ready.status, ready.document) == (200, {"name": "m", "ready": True})
    assert (slow.status, slow.document) == (503, {"name": "slow", "ready": False, "reason": "is loading"})


async def test_a_lone_model_answers_to_the_services_name_too() -> None:
    server = Server(RecordingModel(), alias="service")

    answer = await server.ask("POST", "/v1/models/service:predict", INSTANCES)
    status = await server.ask("GET", "/v1/models/service")

    assert (answer.status, status.document) == (200, {"name": "m", "ready": True})


async def test_with_several_models_the_services_name_means_none() -> None:
    server = Server(RecordingModel(), RecordingModel(name="n"), alias="service")

    assert (await server.ask("GET", "/v1/models/service")).status == 404


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/models/x:predict"), ("POST", "/v1/models/x:explain"), ("GET", "/v1/models/x")]
)
async def test_a_model_that_is_not_served_is_told_from_those_that_are(method: str, path: str) -> None:
    answer = await Server().ask(method, path, INSTANCES)

    assert (answer.status, answer.document) == (
        404,
        error("Model with name x does not exist. Models served here: m."),
    )


@pytest.mark.parametrize("verb", ["predict", "explain"])
async def test_a_model_that_is_not_ready_says_why_and_when_to_come_back(verb: str) -> None:
    server = Server(expected=("slow",))

    answer = await server.ask("POST", f"/v1/models/slow:{verb}", INSTANCES)

    assert (answer.status, answer.document) == (503, error("Model with name slow is not ready: it is loading."))
    assert answer.headers["retry-after"] == "1"


async def test_a_model_that_recovers_takes_requests_and_is_not_ready() -> None:
    server = Server()
    server.models.record("m", Event.WORKERS_LOST, "lost its worker")

    assert (await server.ask("POST", "/v1/models/m:predict", INSTANCES)).status == 200
    assert (await server.ask("GET", "/v1/models/m")).status == 503
    assert (await server.ask("GET", "/v2/health/ready")).document == {
        "ready": False,
        "models": {"m": "lost its worker"},
    }
    server.models.record("m", Event.READY)
    assert (await server.ask("GET", "/v2/health/ready")).document == {"ready": True}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", 'The request body is empty; send {"instances": [...]}.'),
        (b"{", "The request body is not valid JSON: unexpected end of data (line 1, column 2)."),
        (b'{"x": 1}', 'The request has no "instances"; send {"instances": [...]}.'),
    ],
)
async def test_a_body_that_is_no_request_is_refused(body: bytes, message: str) -> None:
    server = Server()

    answer = await server.ask("POST", "/v1/models/m:predict", body)

    assert (answer.status, answer.document, server.model.calls) == (400, error(message), [])


async def test_what_the_model_does_not_do_is_said() -> None:
    answer = await Server(FakeModel()).ask("POST", "/v1/models/m:explain", INSTANCES)

    assert (answer.status, answer.document) == (501, error("v2 only"))


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


async def test_a_structured_event_is_answered_by_one() -> None:
    event = orjson.dumps({**ATTRIBUTES, "data": orjson.loads(INSTANCES)})

    answer = await Server().ask("POST", "/v1/models/m:explain", event, content_type="application/cloudevents+json")

    document = answer.document
    document.pop("time")
    assert document.pop("id") != "42"
    assert answer.headers["content-type"].startswith("application/cloudevents+json")
    assert document == {
        "specversion": "1.0",
        "source": "io.kserve.inference.m",
        "type": "io.kserve.inference.response",
        "datacontenttype": "application/json",
        "data": {"explanations": [[1, 2], [3, 4]]},
    }


async def test_an_event_that_is_not_whole_is_refused() -> None:
    answer = await Server().ask("POST", "/v1/models/m:predict", INSTANCES, ce_specversion="1.0")

    assert (answer.status, "The CloudEvent has no header ce-id" in answer.document["error"]) == (400, True)


@pytest.mark.parametrize("content_type", ["application/json", "", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("verb", ["predict", "explain"])
async def test_an_event_that_no_header_calls_one_is_answered_in_plain_json(content_type: str, verb: str) -> None:
    event = orjson.dumps({**ATTRIBUTES, "time": "2030-01-01T00:00:00Z", "data": orjson.loads(INSTANCES)})

    answer = await Server().ask("POST", f"/v1/models/m:{verb}", event, content_type=content_type)

    key = {"predict": "predictions", "explain": "explanations"}[verb]
    assert (answer.status, answer.document) == (200, {key: [[1, 2], [3, 4]]})
    assert answer.headers.keys() == {"content-type", "content-length", "x-request-id"}


async def test_what_is_wrong_with_its_data_is_said() -> None:
    event = orjson.dumps({**ATTRIBUTES, "data": {"instances": 1}})

    answer = await Server().ask("POST", "/v1/models/m:predict", event)

    assert (answer.status, answer.document) == (
        400, error('"instances" is a JSON number, not a list; send {"instances": [...]}.'),
    )  # fmt: skip


async def test_a_binary_event_may_have_the_type_of_structured_ones() -> None:
    headers = {f"ce_{name}": value for name, value in ATTRIBUTES.items()}

    answer = await Server().ask(
        "POST", "/v1/models/m:predict", INSTANCES, content_type="application/cloudevents+json", **headers
    )

    assert (answer.document, answer.headers["content-type"]) == ({"predictions": [[1, 2], [3, 4]]}, "application/json")
    assert answer.headers["ce-type"] == "io.kserve.inference.response"


# --- what is encoded ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/models/m:predict", "/v2/models/m/infer"])
@pytest.mark.parametrize("content_type", ["application/json", "application/cloudevents+json"])
async def test_a_compressed_body_is_refused_with_what_to_do(path: str, content_type: str) -> None:
    body = gzip.compress(INSTANCES)

    answer = await Server().ask("POST", path, body, content_encoding="gzip", content_type=content_type)

    message = "The request body is encoded (Content-Encoding: gzip); send it as it is, uncompressed."
    assert (answer.status, answer.document) == (415, error(message))


async def test_a_body_that_is_said_not_to_be_encoded_is_read() -> None:
    answer = await Server().ask("POST", "/v1/models/m:predict", INSTANCES, content_encoding="identity")

    assert answer.status == 200
