"""Both runtimes with the certificate of a Secret: HTTPS and gRPC over TLS on their ports, and nothing else."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest

from data_plane.protocol.v2 import open_inference_pb2 as pb
from tests.integration.mar_runtime.serving import model_dir
from tests.support.object_stores import tls
from tests.support.runtimes import OURS, Runtime


@pytest.mark.parametrize("kind", OURS)
def test_a_runtime_with_a_certificate_serves_by_tls_alone(kind: str, tmp_path: Path) -> None:
    issued = tls.issue(tmp_path / "tls")
    models = model_dir(tmp_path / "models", {"acting": {}})
    trusting = ssl.create_default_context(cafile=issued.authority)
    credentials = grpc.ssl_channel_credentials(issued.authority.read_bytes())
    with Runtime(kind, models, has_torch=False, TLS_DIR=str(tmp_path / "tls")) as runtime:

        def ask(path: str, body: object = None) -> bytes:
            request = urllib.request.Request(
                f"https://127.0.0.1:{runtime.port}{path}", None if body is None else json.dumps(body).encode()
            )
            with urllib.request.urlopen(request, timeout=60, context=trusting) as answer:
                return bytes(answer.read())

        runtime.wait_until(lambda: ask("/v2/health/ready"), "it is ready")
        answer = json.loads(ask("/v1/models/acting:predict", {"instances": [{"do": "tell"}]}))
        with grpc.secure_channel(f"127.0.0.1:{runtime.grpc_port}", credentials) as channel:
            live = channel.unary_unary(
                "/inference.GRPCInferenceService/ServerLive",
                request_serializer=pb.ServerLiveRequest.SerializeToString,
                response_deserializer=pb.ServerLiveResponse.FromString,
            )(pb.ServerLiveRequest(), timeout=60)
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(f"http://127.0.0.1:{runtime.port}/v2/health/live", timeout=10)

    assert len(answer["predictions"]) == 1
    assert live.live
