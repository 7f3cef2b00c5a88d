"""A handler in threads of the server: for one that lets go of the interpreter while it computes.

There is no frame to encode and no second copy of torch. The price: a handler's hang or crash is the whole server's,
and it shares packages and module names with all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from data_plane.errors import NotReady
from data_plane.model_server.errors import ModelFailed
from mar_runtime.pool.worker_pool import PoolPolicy, WorkerTimeout, describe_failure, describe_late_start
from mar_runtime.worker.spec import HandlerNotLoaded, HandlerSpec
from torchserve_compat import frames
from torchserve_compat.server.transport import OnPiece

if TYPE_CHECKING:
    from mar_runtime.worker.handler import Handler

R = TypeVar("R")


class WorkThread:
    """Runs one call after another. It is a daemon: whatever hangs in it does not keep the server from ending."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any, BaseException | None], object]] | None]
        self._jobs = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, call: Callable[[], R]) -> R:
        """What `call` returns; raises what it raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[R] = loop.create_future()
        self._jobs.put((call, lambda *outcome: loop.call_soon_threadsafe(_settle, done, *outcome)))
        return await done

    def close(self) -> None:
        """End when all that was asked for is finished."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, settle = job
            try:
                result, error = call(), None
            except BaseException as raised:  # noqa: BLE001 - who asked gets it
                result, error = None, raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                settle(result, error)
            del job, call, settle, result, error  # nothing is kept while it waits


def _settle(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)


@dataclasses.dataclass(frozen=True, eq=False)
class _Worker:
    thread: WorkThread
    handler: Handler


class HandlerThreads:
    """Runs a handler in threads, each with an instance of its own. `on_failure` learns why it cannot any more."""

    def __init__(
        self,
        spec: HandlerSpec,
        archive: str,
        policy: PoolPolicy,
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
        """Their number never changes: it is told once."""
        on_change(len(self._workers), "")

    async def start(self) -> None:
        """Returns when all threads have loaded their handler; raises ModelFailed where it cannot be loaded."""
        await asyncio.to_thread(importlib.import_module, "mar_runtime.worker.handler")  # torch, and all that it imports
        self._check()
        sys.path.insert(0, self._spec.folder)
        try:
            for gpu in self._gpus:  # one after another: imports are not meant to race
                self._workers.append(await self._load(gpu))
        except HandlerNotLoaded as error:
            raise ModelFailed(describe_failure(self._spec.model, self._archive, error.failure)) from None
        except TimeoutError:
            raise ModelFailed(
                describe_late_start(self._spec.model, self._archive, self._policy.startup_timeout_s)
            ) from None
        self._idle.extend(self._workers)

    async def send(
        self,
        batch: frames.HandlerBatch,
        is_wanted: Callable[[], bool],  # noqa: ARG002 - nothing waits here
        on_piece: OnPiece,
    ) -> frames.HandlerResult:
        """The result of a free thread; the queue never sends more batches than there are threads."""
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
                    lambda: _answer(worker.handler, batch, lambda piece: loop.call_soon_threadsafe(take, piece))
                )
        except TimeoutError:
            late = WorkerTimeout(
                self._spec.model, timeout_s, "a thread cannot be ended, so the server has to start again"
            )
            self._on_failure(ModelFailed(late.message))
            raise late from None
        self._idle.append(worker)
        self._on_result(self._spec.model, result)
        return result

    async def close(self) -> None:
        """End the threads, and let other archives have the names of this one's modules."""
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
        """Raises ModelFailed for an archive that only a process of its own can serve."""
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


def _answer(
    handler: Handler, batch: frames.HandlerBatch, emit: Callable[[frames.Piece], object]
) -> frames.HandlerResult:
    try:
        return handler.run(batch, emit)
    except BaseException as error:  # noqa: BLE001 - it must not end the thread, as it would end a process
        return frames.HandlerResult([], 0.0, frames.HandlerFailure(handler.last_words(error), 500))
