"""What a client sends cannot pass for a line of a server's log, nor speak to the terminal that shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import grpc
import pytest

from data_plane.protocol.v2 import open_inference_pb2 as pb
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import OURS, Request, Runtime
from tests.support.waiting import eventually

RAISES_WHAT_IT_GETS = b"""
import logging

class Handler:
    def initialize(self, context):
        pass

    def handle(self, instances, context):
        logging.getLogger("handler").error("got %s", instances[0]["data"])
        raise ValueError(instances[0]["data"])
"""
FORGED = "2026-01-01 00:00:00,000 INFO    mar_runtime forged"
HOSTILE = f"x\n{FORGED}\r\x1b[2J\x9b\u202e\u2028{FORGED}"
ENDED = "the last line"


@pytest.fixture(scope="module", params=OURS)
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("forged")
    write_mar(folder / "model-store/m.mar", manifest(modelName="m"), {"handler.py": RAISES_WHAT_IT_GETS})
    (folder / "config").mkdir()
    (folder / "config/config.properties").write_text("load_models=m.mar\ndefault_workers_per_model=1\n")
    with Runtime(request.param, folder, has_torch=False) as running:
        yield running.wait_ready(["m"])


def test_no_line_of_the_log_is_forged(runtime: Runtime) -> None:
    """Not by a path, a query, a request id, a model's name or a body, nor by what a handler makes of these."""
    hidden, ids = quote(HOSTILE, safe=""), (("x-request-id", "x\x9bx"),)
    for path in (f"/{hidden}", f"/v1/models/{hidden}", f"/v2/models/{hidden}/infer", f"/predictions/{hidden}?{hidden}"):
        for method in ("GET", "POST", "DELETE"):
            runtime.send(Request(method, path, b"{}", ids))
    body = json.dumps({"instances": [{"data": HOSTILE}]}).encode()
    assert runtime.send(Request("POST", "/v1/models/m:predict", body, ids)).status == 500
    ask_over_grpc(runtime)
    runtime.send(Request("POST", "/v1/models/m:predict", json.dumps({"instances": [{"data": ENDED}]}).encode()))
    eventually(lambda: ENDED in runtime.log, "the handler's log is there", within=60)

    text = Path(runtime.folder / "log").read_text(encoding="utf-8")

    assert [line for line in text.split("\n") if line.startswith("2026-01-01")] == []
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text) == []
    assert FORGED in text  # it is there to be read, behind something that is not a line's beginning


def ask_over_grpc(runtime: Runtime) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{runtime.grpc_port}") as channel:
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelInferResponse.FromString,
        )
        with pytest.raises(grpc.RpcError):
            infer(pb.ModelInferRequest(model_name=HOSTILE, model_version=HOSTILE), metadata=(("x-request-id", "a b"),))
