"""A handler in threads of the server, for handlers that release the GIL while they compute.

There is no frame to encode and no second copy of torch. But a handler that hangs or crashes affects the whole server,
and all handlers share packages and module names.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from data_plane.errors import NotReady
from data_plane.model_server.errors import ModelFailed
from mar_runtime.pool.work_thread import WorkThread
from mar_runtime.pool.worker_pool import PoolPolicy, WorkerTimeout, describe_failure
from mar_runtime.worker.spec import HandlerNotLoaded, HandlerSpec
from torchserve_compat import frames
from torchserve_compat.server.errors import describe_late_start
from torchserve_compat.server.transport import OnPiece

if TYPE_CHECKING:
    from mar_runtime.worker.handler import Handler


@dataclasses.dataclass(frozen=True, eq=False)
class _Worker:
    thread: WorkThread
    handler: Handler


class ThreadPool:
    """Runs a handler in threads, each with its own instance. `on_failure` is called when it cannot run any more."""

    def __init__(
        self,
        spec: HandlerSpec,
        policy: PoolPolicy,
        *,
        archive: str,
        gpus: Sequence[int],
        on_result: Callable[[str, frames.HandlerResult], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._spec = spec
        self._archive = archive
        self._policy = policy
        self._gpus = [gpus[index % len(gpus)] if gpus else None for index in range(policy.workers)]
        self._on_result = on_result
        self._on_failure = on_failure
        self._idle: deque[_Worker] = deque()
        self._workers: list[_Worker] = []

    def watch(self, on_change: Callable[[int, str], None]) -> None:
        """Call `on_change` once: the number of threads never changes."""
        on_change(len(self._workers), "")

    async def start(self) -> None:
        """Return when all threads have loaded their handler; raises ModelFailed if it cannot be loaded."""
        await asyncio.to_thread(importlib.import_module, "mar_runtime.worker.handler")  # imports torch
        self._check()
        sys.path.insert(0, self._spec.folder)
        try:
            for gpu in self._gpus:  # one by one: imports must not race
                self._workers.append(await self._load(gpu))
        except HandlerNotLoaded as error:
            raise ModelFailed(describe_failure(self._spec, self._archive, error.failure)) from None
        except TimeoutError:
            raise ModelFailed(
                describe_late_start(self._spec.model, self._archive, self._policy.startup_timeout_s)
            ) from None
        self._idle.extend(self._workers)

    async def send(
        self,
        batch: frames.HandlerBatch,
        is_wanted: Callable[[], bool],  # noqa: ARG002 - no batch waits here
        on_piece: OnPiece,
    ) -> frames.HandlerResult:
        """Run a batch on a free thread; the queue never sends more batches than there are threads."""
        if not self._idle:
            raise NotReady(f"Model {self._spec.model} has no free thread at the moment.")
        worker = self._idle.popleft()
        timeout_s, loop = self._policy.response_timeout_s, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s) as limit:

                def take(piece: frames.Piece) -> None:
                    limit.reschedule(loop.time() + timeout_s)
                    on_piece(piece)

                result = await worker.thread.run(
                    lambda: _run(worker.handler, batch, lambda piece: loop.call_soon_threadsafe(take, piece))
                )
        except TimeoutError:
            late = WorkerTimeout(self._spec.model, timeout_s, "a thread cannot be ended, so the server must restart")
            self._on_failure(ModelFailed(late.message))
            raise late from None
        self._idle.append(worker)
        self._on_result(self._spec.model, result)
        return result

    async def close(self) -> None:
        """End the threads and release the names of the archive's modules."""
        for worker in self._workers:
            worker.thread.close()
        self._workers.clear()
        self._idle.clear()
        if self._spec.folder in sys.path:
            sys.path.remove(self._spec.folder)
        for name, module in list(sys.modules.items()):
            if Path(getattr(module, "__file__", None) or "/").is_relative_to(self._spec.folder):
                del sys.modules[name]

    async def _load(self, gpu: int | None) -> _Worker:
        thread = WorkThread(f"handler of {self._spec.model}")
        spec = dataclasses.replace(self._spec, gpu=gpu)
        async with asyncio.timeout(self._policy.startup_timeout_s):
            return _Worker(thread, await thread.run(lambda: _load(spec)))

    def _check(self) -> None:
        """Raise ModelFailed for an archive that needs its own process."""
        model, cure = f"Model {self._spec.model} ({self._archive})", "serve it with workerType: process"
        if self._spec.packages:
            raise ModelFailed(f"{model} has requirements, and a thread shares the server's packages; {cure}.")
        for file in Path(self._spec.folder).glob("*.py"):
            if module := sys.modules.get(file.stem):
                raise ModelFailed(
                    f"{model}: its {file.name} has the name of a module that is loaded already "
                    f"({module.__file__ or 'built in'}), and threads share modules; rename it or {cure}."
                )


def _load(spec: HandlerSpec) -> Handler:
    from mar_runtime.worker.handler import Handler  # imports torch

    return Handler(spec)


def _run(handler: Handler, batch: frames.HandlerBatch, emit: Callable[[frames.Piece], object]) -> frames.HandlerResult:
    try:
        return handler.run(batch, emit)
    except BaseException as error:  # noqa: BLE001 - SystemExit and others must not end the thread
        return frames.HandlerResult([], 0.0, frames.HandlerFailure(handler.exit_message(error), 500))
