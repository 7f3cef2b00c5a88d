"""Both runtimes with a payload logger, as processes, and a sink that reads events with the library that KServe uses."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from cloudevents.http import CloudEvent

from data_plane.payload_logger.settings import VARIABLE
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest
from data_plane.protocol.v2.tensors import Tensor
from tests.conformance.archives import HANDLERS
from tests.integration.mar_runtime.serving import metric, model_dir
from tests.support.event_sinks import Sink, sinking
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import OURS, Request, Runtime
from tests.support.waiting import eventually

ASKED = b'{"instances":[{"do":"tell_version"}]}'
ANSWERED = b'{"predictions":["1.0"]}'
SERVICE = {"inferenceService": "cat", "namespace": "zoo", "component": "predictor"}


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    with sinking() as running:
        yield running


@pytest.fixture(scope="module", params=OURS)
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sink: Sink) -> Iterator[Runtime]:
    folder = model_dir(tmp_path_factory.mktemp("logged"), {"m": {}}, "load_models=all")
    files = {"streaming.py": (HANDLERS / "streaming.py").read_bytes()}
    write_mar(folder / "model-store/streaming.mar", manifest(modelName="streaming", handler="streaming.py"), files)
    settings = {"url": sink.url, "metadataHeaders": ["X-User"], "annotations": {"team": "a"}, **SERVICE}
    with Runtime(request.param, folder, has_torch=False, **{VARIABLE: json.dumps(settings)}) as running:
        yield running.wait_ready(["m", "streaming"])


@pytest.fixture(autouse=True)
def _nothing_yet(sink: Sink) -> None:
    sink.events.clear()


def wait_for(sink: Sink, number: int) -> list[CloudEvent]:
    eventually(lambda: len(sink.events) == number, f"there are {number} events", otherwise=lambda: str(sink.events))
    return sorted(sink.events, key=lambda one: str(one["type"]))


def test_the_events_of_a_request_are_kserves(runtime: Runtime, sink: Sink) -> None:
    headers = (("content-type", "application/json"), ("x-request-id", "42"), ("x-user", "me"))
    answer = runtime.send(Request("POST", "/v1/models/m:predict", ASKED, headers))
    events = wait_for(sink, 2)

    def event(kind: str, data: bytes, time: object) -> CloudEvent:
        attributes = {
            "specversion": "1.0",
            "id": "42",
            "source": socket.gethostname(),
            "type": f"org.kubeflow.serving.inference.{kind}",
            "time": time,
            "recordedtime": time,
            "datacontenttype": "application/json",
            "inferenceservicename": "cat",
            "namespace": "zoo",
            "component": "predictor",
            "endpoint": "default",
            "metadata": '{"X-User":["me"]}',
            "annotations": '{"team":"a"}',
        }
        return CloudEvent(attributes, data)

    assert answer.body == ANSWERED
    times = [one["time"] for one in events]
    assert events == [event("request", ASKED, times[0]), event("response", ANSWERED, times[1])]
    assert times == sorted(times)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", time) for time in times)


def test_every_protocol_is_logged(runtime: Runtime, sink: Sink) -> None:
    tensor = {"name": "x", "datatype": "BYTES", "shape": [1], "data": ['{"words":0}']}
    infer = json.dumps({"inputs": [tensor]}).encode()
    sent = [
        Request("POST", "/v2/models/streaming/infer", infer, (("x-request-id", "v2"),)),
        Request("POST", "/predictions/m", ASKED, (("x-request-id", "raw"),)),
        Request("POST", "/predictions/streaming", b'{"words":3}', (("x-request-id", "stream"),)),
        Request("POST", "/v1/models/m:predict", b"no JSON", (("x-request-id", "bad"),)),
        Request("GET", "/v1/models/m"),
    ]
    answers = [runtime.send(one) for one in sent]
    expected = [("request", dict(one.headers)["x-request-id"], one.body) for one in sent[:4]]
    expected += [
        ("response", dict(one.headers)["x-request-id"], answer.body)
        for one, answer in zip(sent[:4], answers, strict=False)
        if answer.status == 200
    ]
    wait_for(sink, len(expected))

    assert sink.told() == sorted(expected)
    assert [answer.status for answer in answers] == [200, 200, 200, 400, 200]


def test_calls_over_grpc_are_logged(runtime: Runtime, sink: Sink) -> None:
    tensor = Tensor.from_numpy("x", np.array([b'{"words":0}'], dtype=object))
    request = wire.request_to_proto(TensorRequest((tensor,)), "streaming").SerializeToString()
    with grpc.insecure_channel(f"127.0.0.1:{runtime.grpc_port}") as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        response = infer(request, timeout=60, metadata=(("x-request-id", "7"),))
    wait_for(sink, 2)

    assert pb.ModelInferResponse.FromString(response).model_name == "streaming"
    assert sink.told() == [
        (kind, "7", b"\0" + len(message).to_bytes(4, "big") + message)
        for kind, message in (("request", request), ("response", response))
    ]


def test_what_is_delivered_is_counted_and_at_the_end_all_is_sent(runtime: Runtime, sink: Sink) -> None:
    before = metric(runtime, 'payload_logger_delivered_total{type="response"}')
    for _ in range(200):
        assert runtime.send(Request("POST", "/v1/models/m:predict", ASKED)).body == ANSWERED
    runtime.process.send_signal(signal.SIGTERM)
    runtime.wait_exit()

    assert before >= 1
    assert len(sink.events) == 400
