"""TorchServe's own API over gRPC, on the same port, asked by a client made of TorchServe's own .proto file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import grpc
import pytest

from data_plane.errors import InferenceFailed
from data_plane.health import State
from data_plane.limits import MAX_FORM_PARTS
from data_plane.messages import Response, StreamingResponse, header
from data_plane.model import Call, Models
from data_plane.protocol.torchserve.requests import RawRequest
from tests.support.fake_models import FakeModel, serving
from tests.support.grpc_servers import grpc_port

pytestmark = pytest.mark.process  # protoc, once

# Of googleapis, which TorchServe's file imports and its jar does not hold.
STATUS = """
syntax = "proto3";
package google.rpc;
import "google/protobuf/any.proto";
message Status { int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3; }
"""


class Raw(FakeModel):
    """Answers with what it got; a piece `do` says how."""

    async def raw(self, request: RawRequest, call: Call) -> Response | StreamingResponse:
        self.calls.append(call)
        told = b"%b=%b %b" % (request.name.encode(), request.body, repr(sorted(request.fields)).encode())
        match dict(request.fields).get("do"):
            case b"stream":
                return StreamingResponse(_pieces(told))
            case b"status":
                return Response(b"this is not a picture", 422)
            case b"fail":
                raise InferenceFailed("cannot read this", 422)
        return Response(told)


async def _pieces(told: bytes) -> AsyncIterator[bytes]:
    for piece in (b"one, ", told):
        yield piece


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The client's messages by name, as TorchServe's users make them."""
    folder = tmp_path_factory.mktemp("torchserve")
    spec = find_spec("ts")
    assert spec
    assert spec.origin
    with ZipFile(Path(spec.origin).parent / "frontend/model-server.jar") as jar:
        (folder / "inference.proto").write_bytes(jar.read("proto/inference.proto"))
    (folder / "google/rpc").mkdir(parents=True)
    (folder / "google/rpc/status.proto").write_text(STATUS)
    generate = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={folder}/set"]
    subprocess.run([*generate, "--include_imports", "inference.proto"], cwd=folder, check=True)
    return _messages((folder / "set").read_bytes())


def _messages(descriptors: bytes) -> Any:
    """In a pool of their own: other tests have messages of the same names."""
    from google.protobuf import message_factory
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found = message_factory.GetMessages(list(FileDescriptorSet.FromString(descriptors).file))
    return {name.rpartition(".")[2]: kind for name, kind in found.items()}


class Client:
    """Calls methods by their names."""

    def __init__(self, channel: grpc.aio.Channel, messages: Any) -> None:
        self._channel = channel
        self._messages = messages

    async def ping(self) -> str:
        answer: Any = await self._stub("Ping", "unary_unary", "TorchServeHealthResponse")(self._messages["Empty"]())
        return str(answer.health)

    async def predict(self, model: str = "m", version: str = "", **pieces: bytes) -> bytes:
        answer: Any = await self._stub("Predictions")(self.request(model, version, **pieces))
        return bytes(answer.prediction)

    async def stream(self, *requests: Any) -> list[tuple[bytes, str, int, str]]:
        """Prediction, sequence, code and message of each response of StreamPredictions2."""
        call = self._stub("StreamPredictions2", "stream_stream")(iter(requests))
        return [
            (answer.prediction, answer.sequence_id, answer.status.code, answer.status.message) async for answer in call
        ]

    async def pieces(self, request: Any) -> list[bytes]:
        """Of StreamPredictions."""
        return [answer.prediction async for answer in self._stub("StreamPredictions", "unary_stream")(request)]

    def request(self, model: str = "m", version: str = "", **pieces: bytes) -> Any:
        return self._messages["PredictionsRequest"](model_name=model, model_version=version, input=pieces)

    def _stub(self, method: str, kind: str = "unary_unary", answer: str = "PredictionResponse") -> Any:
        return getattr(self._channel, kind)(
            f"/org.pytorch.serve.grpc.inference.InferenceAPIsService/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._messages[answer].FromString,
        )


@asynccontextmanager
async def asking(models: Models, messages: Any) -> AsyncIterator[Client]:
    async with grpc_port(models) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Client(channel, messages)


async def test_ping_says_whether_all_models_are_ready(apis: Any) -> None:
    models = serving(Raw(), expected=("slow",))
    async with asking(models, apis) as client:
        unhealthy = await client.ping()
        models.record("slow", State.READY)

        assert [unhealthy, await client.ping()] == ['{\n  "status": "Unhealthy"\n}', '{\n  "status": "Healthy"\n}']


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ({"data": b"x"}, b"data=x []"),
        ({"body": b"x"}, b"body=x []"),
        ({"text": b"x"}, b"text=x []"),
        ({"k": b"5", "data": b"\xff", "body": b"y"}, b"data=\xff [('body', b'y'), ('k', b'5')]"),
        ({}, b"= []"),
        ({"data": b"x", "do": b"stream"}, b"one, data=x [('do', b'stream')]"),
        ({"data": b"x", "do": b"status"}, b"this is not a picture"),
    ],
)
async def test_a_model_gets_the_pieces_of_a_request_by_their_names(
    apis: Any, pieces: dict[str, bytes], told: bytes
) -> None:
    async with asking(serving(Raw(), Raw(version="2")), apis) as client:
        assert await client.predict(**pieces) == told
        assert await client.predict(version="2", **pieces) == told


@pytest.mark.parametrize(
    ("model", "version", "pieces", "code", "words"),
    [
        ("x", "", {"data": b"x"}, grpc.StatusCode.NOT_FOUND, "Model with name x does not exist."),
        ("m", "7", {"data": b"x"}, grpc.StatusCode.NOT_FOUND, "Model with name m, version 7, does not exist."),
        ("", "", {"data": b"x"}, grpc.StatusCode.INVALID_ARGUMENT, "The request names no model; set model_name."),
        ("m", "", {"do": b"fail", "data": b"x"}, grpc.StatusCode.INVALID_ARGUMENT, "cannot read this"),
        ("m", "", {str(number): b"" for number in range(MAX_FORM_PARTS + 1)}, grpc.StatusCode.INVALID_ARGUMENT,
         f"The request has more than {MAX_FORM_PARTS} inputs;"),
    ],
)  # fmt: skip
async def test_what_cannot_be_answered_has_a_status_of_its_own(
    apis: Any, model: str, version: str, pieces: dict[str, bytes], code: grpc.StatusCode, words: str
) -> None:
    async with asking(serving(Raw()), apis) as client:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await client.predict(model, version, **pieces)

    assert raised.value.code() is code
    assert (raised.value.details() or "").startswith(words)


@pytest.mark.parametrize(
    ("pieces", "answers"),
    [({"data": b"x"}, [b"data=x []"]), ({"do": b"stream", "data": b"x"}, [b"one, ", b"data=x [('do', b'stream')]"])],
)
async def test_an_answer_is_streamed_as_the_model_makes_it(
    apis: Any, pieces: dict[str, bytes], answers: list[bytes]
) -> None:
    async with asking(serving(Raw()), apis) as client:
        assert await client.pieces(client.request(**pieces)) == answers


async def test_a_stream_that_cannot_begin_has_a_status(apis: Any) -> None:
    async with asking(serving(Raw()), apis) as client:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await client.pieces(client.request("x"))

    assert raised.value.code() is grpc.StatusCode.NOT_FOUND


async def test_requests_of_a_sequence_are_answered_in_order_and_an_error_ends_none(apis: Any) -> None:
    model = Raw()
    async with asking(serving(model), apis) as client:
        requests = [client.request(data=b"1"), client.request("x"), client.request(do=b"stream", data=b"3")]
        for request in requests:
            request.sequence_id = "a sequence"
        answers = await client.stream(*requests, client.request(data=b"4"))

    missing = "Model with name x does not exist. Models served here: m."
    assert answers == [
        (b"data=1 []", "a sequence", 0, ""),
        (b"", "a sequence", grpc.StatusCode.NOT_FOUND.value[0], missing),
        (b"one, ", "a sequence", 0, ""),
        (b"data=3 [('do', b'stream')]", "a sequence", 0, ""),
        (b"data=4 []", "", 0, ""),
    ]
    sequences = [header(call.headers, b"ts_request_sequence_id") for call in model.calls]
    assert sequences == [b"a sequence", b"a sequence", None]
