"""Events in and out, in both modes, and against the CloudEvents SDK that KServe uses."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from urllib.parse import unquote

import orjson
import pytest
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent as SdkEvent
from cloudevents.http import from_http
from hypothesis import given
from hypothesis import strategies as st

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_EVENT_ATTRIBUTES
from data_plane.messages import Headers, Response
from data_plane.protocol import cloudevents
from data_plane.protocol.cloudevents import RESPONSE_TYPE, CloudEvent, EventStyle
from tests.support.fuzz import damaged

STRUCTURED: Headers = ((b"content-type", b"application/cloudevents+json; charset=UTF-8"),)
ATTRIBUTES = {"specversion": "1.0", "id": "42", "source": "/camera", "type": "image"}
PAYLOAD = b'{"instances": [1]}'


def now() -> datetime:
    return datetime(2030, 1, 2, tzinfo=UTC)


def new_id() -> str:
    return "43"


def binary(**attributes: str) -> Headers:
    return tuple((f"ce-{name}".encode(), value.encode()) for name, value in attributes.items())


def with_id(identity: str, structured: bool) -> CloudEvent:
    return CloudEvent({**ATTRIBUTES, "id": identity}, PAYLOAD, structured)


def structured(members: bytes = b'"data": {"instances": [1]}', **attributes: object) -> bytes:
    return orjson.dumps({**ATTRIBUTES, **attributes})[:-1] + b", " + members + b"}"


def test_a_binary_event_is_one_whatever_the_type_of_its_body() -> None:
    headers = (*binary(**ATTRIBUTES), *STRUCTURED)
    assert cloudevents.unwrap(headers, PAYLOAD) == CloudEvent(ATTRIBUTES, PAYLOAD, structured=False)
    assert cloudevents.unwrap(headers[1:], structured()) == CloudEvent(ATTRIBUTES, PAYLOAD, structured=True)


MORE = {"time": "2030-01-01T00:00:00Z", "retries": 3, "urgent": True, "datacontenttype": "application/json"}


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (structured(), {}),
        (structured(b'"data_base64": "%b"' % base64.b64encode(PAYLOAD)), {}),
        (structured(**MORE), MORE),
        (structured(subject=None, large=2**31, nested={"a": 1}, text=[]), {}),
    ],
    ids=["json", "base64", "extensions", "no-attributes"],
)
def test_the_data_of_a_structured_event_is_its_payload(body: bytes, more: dict[str, str | int]) -> None:
    assert cloudevents.unwrap(STRUCTURED, body) == CloudEvent({**ATTRIBUTES, **more}, PAYLOAD, structured=True)


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (structured(), PAYLOAD),
        (structured(time="2030-01-01T00:00:00Z"), PAYLOAD),
        (PAYLOAD, None),
        (structured(source=""), None),
        (b"[]", None),
        (b"", None),
    ],
    ids=["event", "with-time", "none", "not-whole", "list", "empty"],
)
def test_the_data_of_an_event_that_no_header_calls_one_is_found(body: bytes, data: bytes | None) -> None:
    assert cloudevents.data_in(body) == data


@pytest.mark.parametrize("missing", sorted(ATTRIBUTES.keys() - {"specversion"}))
def test_an_attribute_that_is_missing_is_named(missing: str) -> None:
    attributes = {name: value for name, value in ATTRIBUTES.items() if name != missing}
    with pytest.raises(InvalidRequest, match=f"The CloudEvent has no header ce-{missing};"):
        cloudevents.unwrap(binary(**attributes), PAYLOAD)
    with pytest.raises(InvalidRequest, match=f"The CloudEvent has no attribute {missing};"):
        cloudevents.unwrap(STRUCTURED, structured(**{missing: ""}))


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        (STRUCTURED, b"", "The structured CloudEvent cannot be read"),
        (STRUCTURED, b"[]", "The structured CloudEvent cannot be read: Expected `object`, got `array`"),
        (STRUCTURED, structured(b'"data": 1, "data_base64": ""'), 'needs "data" or "data_base64", and not both'),
        (STRUCTURED, structured(b'"more": 1'), 'needs "data" or "data_base64"'),
        (STRUCTURED, structured(b'"data_base64": "?"'), "Invalid base64 encoded string - at `$.data_base64`"),
        (STRUCTURED, structured(id=7), "Expected `str`, got `int` - at `$.id`"),
        (STRUCTURED, b'{"data":' + b"[" * 100_000, "The structured CloudEvent cannot be read: maximum recursion depth"),
        (STRUCTURED, structured(specversion="0.3"), "The CloudEvent's specversion is '0.3'; send 1.0."),
        (binary(**{**ATTRIBUTES, "specversion": "2"}), PAYLOAD, "The CloudEvent's specversion is '2'; send 1.0."),
        (((b"content-type", b"application/cloudevents-batch+json"),), b"[]", "send each event as a request of its own"),
    ],
    ids=["empty", "list", "both", "no-data", "base64", "id", "deep", "old", "new", "batch"],
)
def test_what_is_wrong_with_an_event_is_said(headers: Headers, body: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        cloudevents.unwrap(headers, body)


LARGE = b'{"instances": ["%b"]}' % (b"a" * MAX_EVENT_ATTRIBUTES)


@pytest.mark.parametrize("data", [b'"data":%b' % LARGE, b'"data_base64":"%b"' % base64.b64encode(LARGE)])
def test_the_data_of_a_large_event_is_found_as_that_of_a_small_one(data: bytes) -> None:
    read = cloudevents.unwrap(STRUCTURED, structured(data, retries=3))

    assert read == CloudEvent({**ATTRIBUTES, "retries": 3}, LARGE, structured=True)


def test_an_event_of_more_attributes_than_headers_hold_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"The CloudEvent's attributes have .* bytes; 65536 are served"):
        cloudevents.unwrap(STRUCTURED, structured(more="a" * MAX_EVENT_ATTRIBUTES))


def test_a_binary_event_is_answered_by_one() -> None:
    answer = Response(b'{"predictions":[1]}', headers=((b"server-timing", b"model;dur=1"),))
    assert cloudevents.wrap(with_id("4 2", structured=False), answer, "bert", now=now, new_id=new_id) == Response(
        b'{"predictions":[1]}',
        headers=(
            (b"server-timing", b"model;dur=1"),
            (b"ce-specversion", b"1.0"),
            (b"ce-id", b"43"),
            (b"ce-source", b"io.kserve.inference.bert"),
            (b"ce-type", b"io.kserve.inference.response"),
            (b"ce-time", b"2030-01-02T00:00:00+00:00"),
        ),
    )


@pytest.mark.parametrize(
    ("answer", "data"),
    [
        (
            Response(b'{"predictions":[1]}'),
            {"datacontenttype": "application/json", "data": {"predictions": [1]}},
        ),
        (
            Response(b"\xff", content_type=b"application/octet-stream"),
            {"datacontenttype": "application/octet-stream", "data_base64": "/w=="},
        ),
    ],
    ids=["json", "bytes"],
)
def test_a_structured_event_is_answered_by_one(answer: Response, data: dict[str, object]) -> None:
    wrapped = cloudevents.wrap(with_id("42", structured=True), answer, "bert", now=now, new_id=new_id)
    assert wrapped.content_type == b"application/cloudevents+json"
    assert orjson.loads(wrapped.body) == {
        "specversion": "1.0",
        "id": "43",
        "source": "io.kserve.inference.bert",
        "type": "io.kserve.inference.response",
        "time": "2030-01-02T00:00:00+00:00",
        **data,
    }


@pytest.mark.parametrize(
    ("asked", "extensions"),
    [
        (CloudEvent({**ATTRIBUTES, **MORE}, PAYLOAD, structured=True), {"retries": 3, "urgent": True}),
        (CloudEvent({**ATTRIBUTES, "time": "now", "retries": "3"}, PAYLOAD, structured=False), {"retries": "3"}),
    ],
    ids=["structured", "binary"],
)
def test_its_attributes_come_back_where_that_is_asked_for(asked: CloudEvent, extensions: dict[str, object]) -> None:
    style = EventStyle(merges=True, type="scored", source="/models")
    answer = cloudevents.wrap(asked, Response(b"1"), "bert", style=style, now=now, new_id=new_id)

    headers = {name.decode().removeprefix("ce-"): unquote(value.decode()) for name, value in answer.headers}
    told = orjson.loads(answer.body) if asked.structured else headers
    own = {"specversion": "1.0", "id": "43", "source": "/models", "type": "scored", "time": now().isoformat()}
    data = {"datacontenttype": "application/json", "data": 1} if asked.structured else {}
    assert told == {**own, **extensions, **data}


@pytest.mark.parametrize(
    ("environment", "style"),
    [
        ({}, EventStyle()),
        ({"CE_MERGE": "false", "CE_TYPE": "", "CE_SOURCE": ""}, EventStyle(merges=False, type=RESPONSE_TYPE)),
        ({"CE_MERGE": "True", "CE_TYPE": "t", "CE_SOURCE": "s"}, EventStyle(merges=True, type="t", source="s")),
    ],
    ids=["none", "empty", "all"],
)
def test_kserves_variables_say_what_answers_are(environment: dict[str, str], style: EventStyle) -> None:
    assert EventStyle.of(environment) == style


@pytest.mark.parametrize("mode", [to_binary, to_structured], ids=["binary", "structured"])
def test_events_of_the_cloudevents_sdk_are_read_and_answered(mode) -> None:  # type: ignore[no-untyped-def]
    headers, body = mode(SdkEvent({"source": "/camera", "type": "image", "id": "42"}, {"instances": [1]}))
    event = cloudevents.unwrap(tuple((name.encode(), value.encode()) for name, value in headers.items()), body)
    assert event is not None
    assert orjson.loads(event.payload) == {"instances": [1]}
    answer = cloudevents.wrap(event, Response(b'{"predictions":[1]}'), "bert", now=now, new_id=new_id)
    sent = {name.decode(): value.decode() for name, value in answer.headers}
    read = from_http({"content-type": answer.content_type.decode(), **sent}, answer.body)
    assert (read["id"], read["source"], read.data) == ("43", "io.kserve.inference.bert", {"predictions": [1]})


@given(st.text(min_size=1), st.booleans())
def test_any_id_can_be_read_again(identity: str, in_body: bool) -> None:
    answer = cloudevents.wrap(with_id("42", in_body), Response(b"1"), "m", now=now, new_id=lambda: identity)
    read = cloudevents.unwrap(((b"content-type", answer.content_type), *answer.headers), answer.body)
    assert read is not None
    assert (read.attributes["id"], read.payload, read.structured) == (identity, b"1", in_body)


def test_damaged_events_are_events_or_refused() -> None:
    good = [structured(retries=3), structured(b'"data_base64": "AAAA"')]
    outcomes = set()
    for body in damaged(good, 4000):
        try:
            outcomes.add(type(cloudevents.unwrap(STRUCTURED, body)))
        except InvalidRequest:
            outcomes.add(InvalidRequest)
    assert outcomes == {CloudEvent, InvalidRequest}
