"""Payloads as CloudEvents, read with the library that KServe uses."""

from __future__ import annotations

from cloudevents.http import CloudEvent, from_http

from data_plane.messages import Headers
from data_plane.payload_logger.events import EventWriter, Payload, PayloadKind, grpc_frame
from data_plane.payload_logger.settings import LoggerSettings

SETTINGS = LoggerSettings(url="http://sink", inference_service="cat", namespace="zoo", component="predictor")
BODY = b'{"instances":[1]}'


def a_payload(kind: PayloadKind = PayloadKind.REQUEST, identity: str = "42", headers: Headers = ()) -> Payload:
    return Payload(kind, identity, b"application/json", (BODY,), headers, 1_700_000_000.5, len(BODY))


def received(settings: LoggerSettings, payload: Payload) -> CloudEvent:
    headers = EventWriter(settings, "cat-predictor-0").headers(payload)
    return from_http(dict(headers), BODY, data_unmarshaller=bytes)


def an_event(kind: str, **attributes: str) -> CloudEvent:
    common = {
        "specversion": "1.0",
        "id": "42",
        "source": "cat-predictor-0",
        "type": f"org.kubeflow.serving.inference.{kind}",
        "time": "2023-11-14T22:13:20.500000+00:00",
        "recordedtime": "2023-11-14T22:13:20.500000+00:00",
        "inferenceservicename": "cat",
        "namespace": "zoo",
        "component": "predictor",
        "endpoint": "default",
        "metadata": "{}",
        "datacontenttype": "application/json",
    }
    return CloudEvent({**common, **attributes}, BODY)


def test_a_request_and_its_response_differ_in_their_types() -> None:
    assert received(SETTINGS, a_payload()) == an_event("request")
    assert received(SETTINGS, a_payload(PayloadKind.RESPONSE)) == an_event("response")


def test_selected_headers_keep_the_names_of_the_settings_and_all_values() -> None:
    settings = LoggerSettings(url="http://sink", metadata_headers=("X-User", "x-trace"))
    headers = ((b"x-user", b"Jos\xe9"), (b"accept", b"*/*"), (b"x-user", b'"b"'), (b"X-Trace".lower(), b"1"))
    selected = EventWriter(settings, "pod").selected(headers)

    assert selected == ((b"x-user", b"Jos\xe9"), (b"x-user", b'"b"'), (b"x-trace", b"1"))
    assert received(settings, a_payload(headers=selected))["metadata"] == (
        '{"X-User":["Jos\\u00e9","\\"b\\""],"x-trace":["1"]}'
    )


def test_annotations_are_one_attribute() -> None:
    settings = LoggerSettings(url="http://sink", annotations={"team": "a b", "share": "5%"})

    assert received(settings, a_payload())["annotations"] == '{"team":"a b","share":"5\\u0025"}'


def test_attributes_without_a_value_are_left_out() -> None:
    event = received(LoggerSettings(url="http://sink"), a_payload())

    assert not {"inferenceservicename", "namespace", "component", "annotations"} & set(event.get_attributes())


def test_no_id_can_add_a_header() -> None:
    headers = EventWriter(SETTINGS, "pod").headers(a_payload(identity="1\r\nx: y é"))

    assert ("ce-id", "1%0D%0Ax:%20y%20%C3%A9") in headers


def test_a_payload_without_a_content_type_has_no_header_for_it() -> None:
    payload = Payload(PayloadKind.REQUEST, "1", b"", (BODY,), (), 0.0, 1)

    assert "content-type" not in dict(EventWriter(SETTINGS, "pod").headers(payload))


def test_a_grpc_message_has_its_prefix() -> None:
    assert b"".join(grpc_frame(b"abc")) == b"\x00\x00\x00\x00\x03abc"
