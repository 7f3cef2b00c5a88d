"""A transformer as its clients see it: the whole server with its model, in the test's process."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from data_plane.server.app import App
from data_plane.server.metrics import ServerMetrics
from transformer_sdk.kserve import context
from transformer_sdk.kserve.hooks import done
from transformer_sdk.kserve.model import Model
from transformer_sdk.kserve.model_repository import ModelRepository
from transformer_sdk.kserve.predictor_config import PredictorConfig
from transformer_sdk.kserve.serving.metrics import HookMetrics
from transformer_sdk.kserve.serving.repository import HookedModels
from transformer_sdk.kserve.serving.server import build_app
from transformer_sdk.kserve.serving.threads import HookThreads
from transformer_sdk.testing.background import BackgroundServer

_MAX_REQUEST = 1 << 30


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


class TransformerServer:
    """Serves one model, which calls this predictor. The model is loaded if it is not ready."""

    def __init__(
        self,
        model: Model,
        *,
        predictor: PredictorConfig | None = None,
        max_threads: int = 4,
        timeout_s: float = 60.0,
    ) -> None:
        self._model = model
        self._max_threads = max_threads
        self._timeout_s = timeout_s
        self._predictor = predictor
        self._server = BackgroundServer(self._make_app)

    @property
    def port(self) -> int:
        return self._server.port

    def post(self, body: Any, path: str | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send bytes, or a document as JSON, to the model's v1 path or another."""
        sent = body if isinstance(body, bytes) else orjson.dumps(body)
        return self.request("POST", path or f"/v1/models/{self._model.name}:predict", sent, headers)

    def get(self, path: str) -> Reply:
        """Ask for what is at this path."""
        return self.request("GET", path)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """On a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self._timeout_s + 10)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, named, answer.read())
        finally:
            connection.close()

    def __enter__(self) -> TransformerServer:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    @contextlib.asynccontextmanager
    async def _make_app(self) -> AsyncIterator[App]:
        if self._predictor is not None:
            context.set_predictor_config(self._predictor)  # for this server's thread alone
        if not self._model.ready:
            await done(self._model.load())
        repository, metrics = ModelRepository(), ServerMetrics()
        repository.update(self._model)
        models = HookedModels(repository, HookThreads(self._max_threads), HookMetrics(metrics.registry))
        yield build_app(models, metrics, timeout_s=self._timeout_s, max_request_size=_MAX_REQUEST)
        await models.close()
