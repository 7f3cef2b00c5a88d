"""A transformer calls its predictor by TLS, and trusts the authority in the Secret, also in a renewed one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from data_plane.client.errors import PredictorUnreachable
from data_plane.model_server.serving import build_app
from data_plane.server.certificate import Certificate, Tls
from data_plane.server.metrics import ServerMetrics
from data_plane.server.run import HttpServer, listen
from tests.support.fake_models import FakeModel, serving
from tests.support.grpc_servers import grpc_server
from tests.support.listeners import listening_on
from tests.support.object_stores import tls
from transformer_sdk.kserve.model import Model, PredictorConfig
from transformer_sdk.kserve.protocol.infer_type import InferInput, InferRequest


@contextlib.asynccontextmanager
async def predictor(folder: Path, http_port: int = 0, grpc_port: int = 0) -> AsyncIterator[tuple[int, int]]:
    """The ports of a server that echoes, with the certificate in the folder; it closes every connection at the end."""
    metrics, models = ServerMetrics(), serving(FakeModel())
    certificate = Certificate(Tls(str(folder / "tls.crt"), str(folder / "tls.key"), grpc=True))
    with listen("127.0.0.1", http_port) as listener:
        app = build_app(listening_on(listener), models, metrics)
        http = HttpServer(app, listener, grace_period_s=5, certificate=certificate)
        grpc, grpc_port = grpc_server(models, metrics, port=grpc_port, certificate=certificate)
        await grpc.start()
        running = asyncio.create_task(http.run_until_drained())
        try:
            yield listener.getsockname()[1], grpc_port
        finally:
            http.drain()
            await asyncio.gather(running, grpc.stop(0))


def a_request() -> InferRequest:
    return InferRequest("m", [InferInput("x", [1, 2], "FP32", [1.0, 2.0])])


@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
async def test_the_predictor_is_called_before_and_after_a_renewal(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLS_DIR", str(tmp_path))
    answers = []
    ports = (0, 0)
    model = Model("m", PredictorConfig("", protocol, predictor_use_ssl=True))
    for _ in range(2):
        tls.issue(tmp_path)
        async with predictor(tmp_path, *ports) as ports:
            port = ports[protocol == "grpc-v2"]
            model.predictor_host = f"127.0.0.1:{port}"
            answers.append(await model.predict(a_request()))
    await model._close_clients()

    assert [answer.outputs[0].data for answer in answers] == [[1.0, 2.0]] * 2


async def test_a_predictor_of_another_authority_is_not_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = tls.issue(tmp_path / "mine"), tls.issue(tmp_path / "theirs")
    monkeypatch.setenv("TLS_DIR", str(mine.chain.parent))
    async with predictor(theirs.chain.parent) as (port, _):
        model = Model("m", PredictorConfig(f"127.0.0.1:{port}", "v2", predictor_use_ssl=True))
        with pytest.raises(PredictorUnreachable, match="its certificate is not trusted"):
            await model.predict(a_request())
        await model._close_clients()
