"""The processes of a server: one, or several that share the port."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import importlib
import inspect
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from data_plane.model_server.life import open_port
from transformer_sdk.kserve import hooks
from transformer_sdk.kserve.serving import predictor_wait
from transformer_sdk.kserve.serving.config import LoopErrorHandler, ServerConfig
from transformer_sdk.kserve.serving.server import HOST_VARIABLE, serve

log = logging.getLogger(__name__)

_STOPS = (signal.SIGTERM, signal.SIGINT)


def run(config: ServerConfig) -> None:
    """Serve until a signal. A worker that ends by itself ends all others; its exit code is returned."""
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
    lifeline, held = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # until the workers are known
    without_grpc = dataclasses.replace(config, grpc_port=None)  # only the first worker serves it
    configs = [config, *[without_grpc] * (config.workers - 1)]
    workers = [_fork(one, listener, lifeline, held) for one in configs]
    for number in _STOPS:
        signal.signal(number, lambda *_: _stop(workers))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    ended, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGTERM:  # stopped before it served
        code = 0
    if code:
        log.error("worker %d ended with %d: stopping the others", ended, code)
    _stop(workers)
    for worker in workers:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(worker, 0)
    if code:
        sys.exit(code if code > 0 else 1)


def _fork(config: ServerConfig, listener: socket.socket, lifeline: int, held: int) -> int:
    """``held`` is the end of the pipe ``lifeline`` that only the parent keeps."""
    worker = os.fork()
    if worker:
        return worker
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        os.close(held)
        threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
        _run(config, lambda: listener)
        code = 0
    except Exception:
        log.exception("worker %d failed", os.getpid())
    finally:
        logging.shutdown()
        os._exit(code)


def _end_with_parent(lifeline: int) -> None:
    """End the worker with its parent, even if that was killed: an orphan would keep the port."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(workers: list[int]) -> None:
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)


def _run(config: ServerConfig, open_listener: Callable[[], socket.socket]) -> None:
    _run_loop(config.event_loop, _main(config, open_listener))


async def _main(config: ServerConfig, open_listener: Callable[[], socket.socket]) -> None:
    """The port is opened when all models are loaded."""
    loop = asyncio.get_running_loop()
    hooks.set_serving_loop()
    loop.set_exception_handler(_as_sync(config.on_loop_error))
    if config.max_asyncio_workers:
        loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(config.max_asyncio_workers))
    await config.start_async_models()
    with open_listener() as listener:
        await serve(config, listener)


def _as_sync(handler: LoopErrorHandler) -> LoopErrorHandler:
    """Return a handler that starts an async one as a task."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        result = handler(loop, context)
        if inspect.isawaitable(result):
            hooks.begin(result)

    return handle


def _run_loop(kind: str, main: Coroutine[Any, Any, None]) -> None:
    if kind != "asyncio":
        with contextlib.suppress(ImportError):
            importlib.import_module("uvloop").run(main)
            return
        if kind == "uvloop":
            log.warning("uvloop is not installed; serving with asyncio's loop")
    asyncio.run(main)
