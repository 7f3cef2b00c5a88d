"""A model behind a handler, asked as clients ask: what they get of requests that the handler never sees."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest
from prometheus_client import CollectorRegistry

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.errors import InferenceFailed
from data_plane.model import Call
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest
from data_plane.protocol.v2.tensors import Tensor
from tests.unit.endpoints.asking import Server, error
from tests.unit.torchserve_compat.running import Handle, context
from torchserve_compat import frames
from torchserve_compat.server.model import HandlerModel
from torchserve_compat.server.transport import OnPiece
from torchserve_compat.worker.calls import HandlerCalls

CALL = Call((), "1", bool)
V1 = "/v1/models/m:predict"
V2 = "/v2/models/m/infer"


class InProcess:
    """The way to a handler in this process; everything goes through its frame. `sizes` are those of the batches."""

    def __init__(self, envelope: str, handle: Handle) -> None:
        self._calls = HandlerCalls(handle, envelope)
        self.sizes: list[int] = []

    async def send(
        self, batch: frames.HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece
    ) -> frames.HandlerResult:
        self.sizes.append(len(batch.requests))
        result = self._calls.run(frames.decode_batch(frames.encode(batch)), context(), on_piece)
        return frames.decode_result(frames.encode(result))


def model(transport: InProcess) -> HandlerModel:
    metrics = BatchMetricsRegistry(CollectorRegistry()).of_model("m")
    return HandlerModel("m", "1", transport, limits=BatchLimits(), metrics=metrics, workers=1)


def echo(data: list[Any], _: Any) -> list[Any]:
    return data


def tensor(name: str, *values: float) -> dict[str, Any]:
    return {"name": name, "datatype": "FP64", "shape": [len(values)], "data": values}


def infer_request(*inputs: dict[str, Any], **more: Any) -> bytes:
    return orjson.dumps({"id": "an-id", "inputs": inputs, **more})


@pytest.mark.parametrize(
    ("envelope", "path", "body", "status", "message"),
    [
        ("kserve", V1, b'{"instances": [1e400]}', 400,
         "The request body cannot be read: number is infinity when parsed as double (line 1, column 16)."),
        ("json", "/predictions/m", b'{"instances": [{"b64": 5}]}', 400,
         'The "b64" in instance 0 is not text; it takes base64.'),
        ("kserve", V2, infer_request(tensor("x", 1), tensor("y", 1, 2)), 422,
         'The inputs must have as many rows each: "x" has 1, "y" has 2.'),
    ],
)  # fmt: skip
async def test_a_request_that_cannot_be_read_is_answered_as_every_error_is(
    envelope: str, path: str, body: bytes, status: int, message: str
) -> None:
    answer = await Server(model(InProcess(envelope, echo))).ask("POST", path, body)

    assert (answer.status, answer.document) == (status, error(message, "model" if status == 422 else "server"))


async def test_nan_is_null_in_json_and_itself_over_grpc() -> None:
    def nan_at_the_end(data: list[Any], _: Any) -> list[Any]:
        return [*data[:-1], math.nan]

    served = model(InProcess("kserve", nan_at_the_end))
    message = pb.ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype="FP64", shape=[2]).contents.fp64_contents.extend([1, 2])

    by_rest = await Server(served).ask("POST", V2, infer_request(tensor("x", 1, 2)))
    by_grpc = wire.response_to_proto(await served.infer(wire.request_from_proto(message), CALL))

    assert by_rest.document["outputs"] == [
        {"name": "predictions", "datatype": "FP64", "shape": [2], "data": [1.0, None]}
    ]
    (output,) = by_grpc.outputs
    assert (output.datatype, str(output.contents.fp64_contents)) == ("FP64", "[1.0, nan]")


def as_asked(rows: list[Any], _: Any) -> list[Any]:
    """Outputs by the names that are asked for, with all parameters that came."""
    answers = []
    for document in (row["body"] for row in rows):
        (read,) = document["inputs"]
        (asked,) = document["outputs"]
        answers.append({"outputs": [{**read, **asked}], "parameters": {**document["parameters"], "by": "handler"}})
    return answers


PARAMETERS = {"whole": 7, "half": 0.5, "yes": True, "text": "a"}


async def test_parameters_reach_the_handler_and_the_client() -> None:
    body = infer_request(
        {**tensor("x", 1), "parameters": {"of": "input"}},
        parameters=PARAMETERS,
        outputs=[{"name": "y", "parameters": PARAMETERS}],
    )

    answer = await Server(model(InProcess("none", as_asked))).ask("POST", V2, body)

    assert answer.document == {
        "model_name": "m",
        "model_version": "1",
        "id": "an-id",
        "parameters": {**PARAMETERS, "by": "handler"},
        "outputs": [{"name": "y", "datatype": "FP64", "shape": [1], "parameters": PARAMETERS, "data": [1.0]}],
    }


@pytest.mark.parametrize("envelope", ["none", "kserve", "kservev2"])
@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("bad picture", "bad picture"),
        (b"bad \xff", '{"%s":["bad \ufffd"]}'),
        (math.nan, '{"%s":[null]}'),
    ],
)
async def test_what_a_handler_says_with_an_error_of_its_own_is_the_message(
    envelope: str, result: Any, message: str
) -> None:
    def refuse(_: list[Any], context: Any) -> list[Any]:
        context.set_response_status(422, idx=0)
        return [result]

    served = model(InProcess(envelope, refuse))
    answer = await Server(served).ask("POST", V2, infer_request(tensor("x", 1)))
    with pytest.raises(InferenceFailed) as raised:
        await served.infer(TensorRequest((Tensor.from_numpy("x", np.array([1.0])),)), CALL)

    said = message.replace("%s", "x" if envelope == "kservev2" else "predictions")
    assert (answer.status, answer.document) == (422, error(said, "model"))
    assert (raised.value.status, raised.value.message) == (422, said)
