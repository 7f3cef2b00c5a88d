"""The server that users start: `ModelServer().start([model])`."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from data_plane.model_server.errors import StartError
from data_plane.ports import HTTP_PORT
from transformer_sdk.kserve import context, flags
from transformer_sdk.kserve.constants.constants import DEFAULT_HTTPS_PORT, KSERVE_LOGLEVEL
from transformer_sdk.kserve.errors import NoModelReady
from transformer_sdk.kserve.hooks import done, finish
from transformer_sdk.kserve.logging import KSERVE_LOGGER_NAME, configure_logging
from transformer_sdk.kserve.model import BaseKServeModel, Model
from transformer_sdk.kserve.model_repository import ModelRepository, is_loaded
from transformer_sdk.kserve.predictor_config import PredictorConfig
from transformer_sdk.kserve.serving.config import LoopErrorHandler, ServerConfig

if TYPE_CHECKING:
    args: argparse.Namespace

__all__ = ["ModelServer", "args", "parser"]

log = logging.getLogger(__name__)

parser = flags.build_parser()

_UNSET: Any = object()


def __getattr__(name: str) -> Any:
    if name == "args":  # what the process was started with, read when somebody asks
        return parser.parse_known_args()[0]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class ModelServer:
    """Serves models. Arguments that are not given come from the flags."""

    def __init__(
        self,
        http_port: int = _UNSET,
        grpc_port: int = _UNSET,
        workers: int = _UNSET,
        max_threads: int = _UNSET,
        max_asyncio_workers: int | None = _UNSET,
        registered_models: ModelRepository | None = None,
        enable_grpc: bool = _UNSET,
        enable_docs_url: bool = _UNSET,
        enable_latency_logging: bool = _UNSET,
        access_log_format: str | None = _UNSET,
        event_loop: str = _UNSET,
        timeout_keep_alive: int = _UNSET,
        grace_period: int = _UNSET,
        predictor_config: PredictorConfig | None = None,
        ssl_certfile: str | None = _UNSET,
        ssl_keyfile: str | None = _UNSET,
    ) -> None:
        given = {name: value for name, value in locals().items() if value is not _UNSET and name in _FLAGS}
        self.settings = argparse.Namespace(**{**vars(parser.parse_known_args()[0]), **given})
        settings = self.settings
        self.registered_models = ModelRepository() if registered_models is None else registered_models
        self.grace_period = flags.default_grace_period() if grace_period is _UNSET else grace_period
        self.http_port = settings.http_port
        self.ssl_certfile, self.ssl_keyfile = settings.ssl_certfile, settings.ssl_keyfile
        if self.ssl_certfile and self.ssl_keyfile and self.http_port == HTTP_PORT:
            self.http_port = DEFAULT_HTTPS_PORT
        self.grpc_port, self.enable_grpc = settings.grpc_port, settings.enable_grpc
        self.workers, self.max_threads = settings.workers, settings.max_threads
        self.max_asyncio_workers = settings.max_asyncio_workers
        self.event_loop, self.timeout_keep_alive = settings.event_loop, settings.timeout_keep_alive
        self.enable_latency_logging = settings.enable_latency_logging
        self.enable_docs_url, self.access_log_format = settings.enable_docs_url, settings.access_log_format
        self.predictor_config = predictor_config or flags.predictor_config(settings)
        self.loop_error_handler: LoopErrorHandler | None = None
        self._async_models: list[BaseKServeModel] = []  # with an async `load` or `start`, which waits for the loop
        context.set_predictor_config(self.predictor_config)
        if settings.configure_logging:
            configure_logging(settings.log_config_file)
            logging.getLogger(KSERVE_LOGGER_NAME).setLevel(KSERVE_LOGLEVEL)

    def start(self, models: Sequence[BaseKServeModel]) -> None:
        """Serve until SIGTERM or SIGINT; raises NoModelReady when none of the models can serve requests.

        A model that is not ready yet is loaded. A port that is taken or an unusable certificate ends the process by
        SystemExit, with the reason as its last line.
        """
        from transformer_sdk.kserve.serving import processes  # the server takes a while to import

        self._register(models)
        try:
            processes.run(self._config())
        except StartError as error:
            sys.exit(str(error))

    def _config(self) -> ServerConfig:
        settings = self.settings
        return ServerConfig(
            repository=self.registered_models,
            async_models=tuple(self._async_models),
            start_async_models=self._start_async_models,
            on_loop_error=self.loop_error_handler or self.default_exception_handler,
            http_port=self.http_port,
            grpc_port=self.grpc_port if self.enable_grpc else None,
            workers=self.workers,
            max_threads=self.max_threads,
            max_asyncio_workers=self.max_asyncio_workers,
            event_loop=self.event_loop,
            grace_period_s=self.grace_period,
            keep_alive_s=self.timeout_keep_alive,
            request_timeout_s=self.predictor_config.predictor_request_timeout_seconds,
            max_request_size=settings.max_request_size,
            max_connections=settings.max_connections,
            max_buffered_bytes=settings.max_buffered_bytes,
            certificate=self.ssl_certfile,
            key=self.ssl_keyfile,
            enable_model_api=settings.enable_model_api,
        )

    def register_model(self, model: BaseKServeModel, name: str | None = None) -> None:
        """Serve the model, under its own name or another."""
        if not model.name:
            raise ValueError("Failed to register model, model.name must be provided.")
        self.registered_models.update(model, name)

    def register_exception_handler(self, handler: LoopErrorHandler) -> None:
        """Handle errors in the event loop that belong to no request."""
        self.loop_error_handler = handler

    def default_exception_handler(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle such an error if no other handler is registered."""
        loop.default_exception_handler(context)

    def _register(self, models: Sequence[BaseKServeModel]) -> None:
        if not isinstance(models, (list, tuple)):
            raise RuntimeError("Unknown model collection type")
        for model in models:
            if not isinstance(model, BaseKServeModel):
                raise RuntimeError(f"{model!r} is not a model: its class does not come from Model")
            if any(map(inspect.iscoroutinefunction, (model.load, model.start))):
                self._async_models.append(model)
            elif finish(is_loaded(model)):
                self._admit(model)
                finish(model.start())
            else:
                _log_refused(model)
        if not self._async_models:
            self._check_that_one_is_served(models)

    async def _start_async_models(self) -> None:
        """Load and start these in the serving event loop, where what they open stays usable; raises NoModelReady."""
        for model in self._async_models:
            if await done(is_loaded(model)):
                self._admit(model)
                await done(model.start())
            else:
                _log_refused(model)
        self._check_that_one_is_served(self._async_models)

    def _admit(self, model: BaseKServeModel) -> None:
        self.register_model(model)
        if isinstance(model, Model):
            model.enable_latency_logging = self.enable_latency_logging

    def _check_that_one_is_served(self, models: Sequence[BaseKServeModel]) -> None:
        if models and not self.registered_models.get_models():
            raise NoModelReady(list(models))


def _log_refused(model: BaseKServeModel) -> None:
    log.warning("model %s is not served: its load says no, and it is not ready", model.name)


_FLAGS = frozenset(vars(parser.parse_args([])))
