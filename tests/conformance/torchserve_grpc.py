"""TorchServe's own gRPC API: the same calls to all servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc

from data_plane.protocol.torchserve import inference_apis_pb2 as pb
from data_plane.server.grpc.torchserve import SERVICE

SHOWN = '{\n  "data": {\n    "bytearray": "x"\n  }\n}'


@dataclass(frozen=True)
class GrpcCase:
    """A call; `answer` is TorchServe's: the text of each message, or the code of the status. None: ours is the same."""

    feature: str
    method: str
    pieces: Mapping[str, bytes] = field(default_factory=dict)
    model: str = "probe"
    version: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    answer: tuple[str, ...] = (SHOWN,)
    ours: tuple[str, ...] | None = None
    why: str = ""


_X = {"data": b"x"}
CASES = (
    GrpcCase("`Ping`", "Ping", answer=('{\n  "status": "Healthy"\n}',)),
    GrpcCase("`Predictions`: the handler receives the parts by their names", "Predictions", _X),
    GrpcCase("`Predictions` of a version", "Predictions", _X, version="1.0"),
    GrpcCase("`Predictions` without a part", "Predictions", answer=("{}",)),
    GrpcCase("`Predictions`: metadata", "Predictions", _X, metadata=(("x-do", "model_name"),), ours=("probe",),
             why="the metadata are the handler's headers, as over HTTP"),
    GrpcCase("`Predictions` of a handler that sets the status 418", "Predictions", {"data": b"teapot"},
             model="configured", answer=("short and stout",)),
    GrpcCase("`Predictions` of an unknown model", "Predictions", _X, model="none", answer=("INTERNAL",),
             ours=("NOT_FOUND",), why="the status code shows what is wrong"),
    GrpcCase("`StreamPredictions2` without a `sequence_id`", "StreamPredictions2", _X,
             answer=("Parameter sequenceId is required.",), ours=(SHOWN,),
             why="a single request is processed like any other"),
    # The last: it costs TorchServe its worker.
    GrpcCase("`StreamPredictions` of a handler that returns one part", "StreamPredictions", _X,
             answer=("INTERNAL",), ours=(SHOWN,), why="TorchServe's worker dies"),
)  # fmt: skip


def call(port: int, case: GrpcCase) -> tuple[str, ...]:
    """The text of each answer, or the name of the status."""
    request = pb.PredictionsRequest(model_name=case.model, model_version=case.version, input=dict(case.pieces))
    kind = pb.TorchServeHealthResponse if case.method == "Ping" else pb.PredictionResponse
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = channel.stream_stream(
            f"/{SERVICE}/{case.method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kind.FromString,
        )
        try:
            answers = list(stub(iter([pb.Empty() if case.method == "Ping" else request]), None, case.metadata))
        except grpc.RpcError as error:
            return (error.code().name,)
    return tuple(getattr(one, "health", "") or one.status.message or one.prediction.decode() for one in answers)
