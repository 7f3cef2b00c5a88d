"""The configuration of a user's ModelServer, for the modules that run it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from transformer_sdk.kserve.model import BaseKServeModel
from transformer_sdk.kserve.model_repository import ModelRepository

LoopErrorHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """The settings of one server.

    `async_models` have an async `load` or `start`; `start_async_models` runs these in the event loop of the server.
    """

    repository: ModelRepository
    async_models: tuple[BaseKServeModel, ...]
    start_async_models: Callable[[], Awaitable[None]]
    on_loop_error: LoopErrorHandler
    http_port: int
    grpc_port: int | None  # None: gRPC is not served
    workers: int
    max_threads: int
    max_asyncio_workers: int | None
    event_loop: str
    grace_period_s: int
    keep_alive_s: int
    request_timeout_s: float
    max_request_size: int
    max_connections: int
    max_buffered_bytes: int | None
    certificate: str | None
    key: str | None
    enable_model_api: bool  # clients may load and unload models
