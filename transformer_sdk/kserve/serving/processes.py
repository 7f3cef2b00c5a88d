"""The processes of a server: one, or several that share the port."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from transformer_sdk.kserve.serving import predictor_wait
from transformer_sdk.kserve.serving.server import HOST_VARIABLE, serve
from transformer_sdk.model_server.life import open_port

if TYPE_CHECKING:
    from transformer_sdk.kserve.model_server import ModelServer

log = logging.getLogger(__name__)

_STOPS = (signal.SIGTERM, signal.SIGINT)


def run(server: ModelServer) -> None:
    """Serve until a signal; a worker that ends by itself ends all, with its exit code."""
    if predictor_wait.is_wanted(os.environ):
        addresses = predictor_wait.addresses_of(server.registered_models.get_models().values())
        if not asyncio.run(predictor_wait.all_reached(addresses)):
            return
    with open_port(os.environ.get(HOST_VARIABLE, ""), server.http_port, "--http_port") as listener:
        if server.workers <= 1:
            _run(server, listener, grpc=server.enable_grpc)
        else:
            _run_workers(server, listener)


def _run_workers(server: ModelServer, listener: socket.socket) -> None:
    """By forks, before any event loop: what the models have loaded is shared."""
    lifeline, held = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # until it is known whom to tell
    workers = [_fork(server, listener, lifeline, held, first=number == 0) for number in range(server.workers)]
    for number in _STOPS:
        signal.signal(number, lambda *_: _stop(workers))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    ended, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGTERM:  # told to stop before it served, and had no more to do
        code = 0
    if code:
        log.error("worker %d ended with %d: stopping the others", ended, code)
    _stop(workers)
    for worker in workers:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(worker, 0)
    if code:
        sys.exit(code if code > 0 else 1)


def _fork(server: ModelServer, listener: socket.socket, lifeline: int, held: int, *, first: bool) -> int:
    """``held`` is the end of the pipe ``lifeline`` that only the parent keeps."""
    worker = os.fork()
    if worker:
        return worker
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        os.close(held)
        threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
        _run(server, listener, grpc=first and server.enable_grpc)
        code = 0
    except Exception:
        log.exception("worker %d failed", os.getpid())
    finally:
        logging.shutdown()
        os._exit(code)


def _end_with_parent(lifeline: int) -> None:
    """Also where it was killed and could tell nobody: a worker left alone would keep the port."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(workers: list[int]) -> None:
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)


def _run(server: ModelServer, listener: socket.socket, *, grpc: bool) -> None:
    _run_loop(server.event_loop, _main(server, listener, grpc=grpc))


async def _main(server: ModelServer, listener: socket.socket, *, grpc: bool) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(server.loop_error_handler or server.default_exception_handler)
    if server.max_asyncio_workers:
        loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(server.max_asyncio_workers))
    await serve(server, listener, grpc=grpc)


def _run_loop(kind: str, main: Coroutine[Any, Any, None]) -> None:
    if kind != "asyncio":
        with contextlib.suppress(ImportError):
            importlib.import_module("uvloop").run(main)
            return
        if kind == "uvloop":
            log.warning("uvloop is not installed; serving with asyncio's loop")
    asyncio.run(main)
