"""The processes of a server: one, or several that share the port."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import importlib
import inspect
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from multiprocessing.context import ForkProcess
from typing import Any

from data_plane.model_server.errors import StartError
from data_plane.model_server.life import open_port
from transformer_sdk.kserve import hooks
from transformer_sdk.kserve.serving import predictor_wait
from transformer_sdk.kserve.serving.config import LoopErrorHandler, ServerConfig
from transformer_sdk.kserve.serving.server import HOST_VARIABLE, serve

log = logging.getLogger(__name__)

_STOPS = (signal.SIGTERM, signal.SIGINT)
_FORK = multiprocessing.get_context("fork")


def run(config: ServerConfig) -> None:
    """Serve until a signal; raises StartError.

    A worker that ends by itself ends all others; its exit code is returned.
    """
    if predictor_wait.is_wanted(os.environ):
        models = (*config.repository.get_models().values(), *config.async_models)
        addresses = predictor_wait.addresses_of(models)
        if not asyncio.run(predictor_wait.all_reached(addresses)):
            return
    if config.workers <= 1:
        _run(config, lambda: _open_port(config))
        return
    with _open_port(config) as listener:
        _run_workers(config, listener)


def _open_port(config: ServerConfig) -> socket.socket:
    return open_port(os.environ.get(HOST_VARIABLE, ""), config.http_port, "--http_port")


def _run_workers(config: ServerConfig, listener: socket.socket) -> None:
    """Fork the workers before any event loop exists; they share what the models have loaded."""
    without_grpc = dataclasses.replace(config, grpc_port=None)  # only the first worker serves it
    configs = [config, *[without_grpc] * (config.workers - 1)]
    workers = [_FORK.Process(target=_work, args=(one, listener)) for one in configs]
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # until all workers have begun
    for worker in workers:
        worker.start()
    for number in _STOPS:
        signal.signal(number, lambda *_: _stop(workers))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    by_sentinel = {worker.sentinel: worker for worker in workers}
    ended = by_sentinel[multiprocessing.connection.wait(by_sentinel)[0]]  # type: ignore[index]
    ended.join()
    code = ended.exitcode or 0
    if code == -signal.SIGTERM:  # stopped before it served
        code = 0
    if code:
        log.error("worker %s ended with %d: stopping the others", ended.pid, code)
    _stop(workers)
    for worker in workers:
        worker.join()
    if code:
        sys.exit(code if code > 0 else 1)


def _work(config: ServerConfig, listener: socket.socket) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _run(config, lambda: listener)
    except StartError as error:
        sys.exit(str(error))
    except Exception:
        log.exception("worker %d failed", os.getpid())
        sys.exit(1)


def _end_with_parent() -> None:
    """End the worker with its parent, even if that was killed: an orphan would keep the port."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _stop(workers: Sequence[ForkProcess]) -> None:
    for worker in workers:
        worker.terminate()


def _run(config: ServerConfig, open_listener: Callable[[], socket.socket]) -> None:
    if _run_loop(config.event_loop, _main(config, open_listener)):
        log.warning("a sync hook still runs: the process ends without it")
        logging.shutdown()
        os._exit(0)


async def _main(config: ServerConfig, open_listener: Callable[[], socket.socket]) -> bool:
    """Return whether sync hooks still run. The port is opened when all models are loaded."""
    loop = asyncio.get_running_loop()
    hooks.set_serving_loop()
    loop.set_exception_handler(_as_sync(config.on_loop_error))
    if config.max_asyncio_workers:
        loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(config.max_asyncio_workers))
    await config.start_async_models()
    with open_listener() as listener:
        return await serve(config, listener)


def _as_sync(handler: LoopErrorHandler) -> LoopErrorHandler:
    """Return a handler that starts an async one as a task."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        result = handler(loop, context)
        if inspect.isawaitable(result):
            hooks.begin(result)

    return handle


def _run_loop(kind: str, main: Coroutine[Any, Any, bool]) -> bool:
    if kind != "asyncio":
        with contextlib.suppress(ImportError):
            return bool(importlib.import_module("uvloop").run(main))
        if kind == "uvloop":
            log.warning("uvloop is not installed; serving with asyncio's loop")
    return asyncio.run(main)
