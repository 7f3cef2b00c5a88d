"""The worker processes of one model version: replaced when they are old or die, given up when they keep dying."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from multiprocessing.context import ForkServerContext

from data_plane.errors import ClientGone, NotReady
from data_plane.model_server.errors import ModelFailed
from mar_runtime import resources
from mar_runtime.limits import MAX_DEATHS
from mar_runtime.pool.ages import too_old
from mar_runtime.pool.pipe import NeverStarted, WorkerDied
from mar_runtime.pool.restarts import Restarts
from mar_runtime.pool.worker_pool import PoolPolicy, WorkerTimeout, describe_failure
from mar_runtime.pool.worker_process import CannotStart, WorkerProcess
from mar_runtime.worker.spec import HandlerNotLoaded, HandlerSpec
from torchserve_compat import frames
from torchserve_compat.server.errors import WorkerBroken, describe_late_start
from torchserve_compat.server.transport import OnPiece

log = logging.getLogger(__name__)

_PENDING = 2  # batches at a worker: the one that runs, and the next
_FREE_MEMORY_FACTOR = 2  # times a worker's memory must be free before another starts: batches need memory, too
_MIB = 1024 * 1024


class NotStarted(ModelFailed):
    """The system could not start a process for a worker; the model is not the cause."""


class ProcessPool:
    """Runs a handler in worker processes. `on_failure` is called with the reason when no worker can run any more."""

    def __init__(
        self,
        context: ForkServerContext,
        spec: HandlerSpec,
        policy: PoolPolicy,
        *,
        archive: str,
        gpus: Sequence[int],
        on_result: Callable[[str, frames.HandlerResult], None],
        on_failure: Callable[[BaseException], None],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._context = context
        self._spec = spec
        self._archive = archive
        self._policy = policy
        self._gpus = gpus
        self._on_result = on_result
        self._on_failure = on_failure
        self._room = spec.batch_size if spec.continuous else _PENDING
        self._on_change: Callable[[int, str], None] = lambda *_: None
        self._workers: list[WorkerProcess] = []
        self._not_gone: set[WorkerProcess] = set()  # the workers, and those that are ending
        self._waiting: deque[asyncio.Future[None]] = deque()  # batches that wait for a worker
        self._replacing: dict[WorkerProcess, bool] = {}  # workers to replace, and whether the replacement is ready
        self._restarts = Restarts(clock)
        self._pause = pause
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._given_up = False

    def watch(self, on_change: Callable[[int, str], None]) -> None:
        """Call `on_change` now and at each change, with the number of workers and how the last one ended."""
        self._on_change = on_change
        self._report()

    async def start(self) -> None:
        """Return when the required workers are ready; raises ModelFailed if the handler cannot be loaded."""
        starting = [asyncio.ensure_future(self._add_worker(self._gpu(index))) for index in range(self._policy.workers)]
        try:
            await asyncio.gather(*starting)
        except BaseException:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, self.close(), return_exceptions=True)
            raise
        self._spawn(self._add_more())

    async def send(
        self, batch: frames.HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece
    ) -> frames.HandlerResult:
        """Return a worker's result.

        A batch that a worker had not started when it died goes to another worker. A batch whose clients are gone when a
        worker becomes free is dropped.
        """
        frame = frames.encode(batch)
        while True:
            worker = await self._free_worker()
            if not is_wanted():
                self._wake()  # the worker is free for others
                raise ClientGone
            try:
                response = await worker.send(
                    frame, self._policy.response_timeout_s, lambda piece: on_piece(frames.decode_piece(piece))
                )
            except NeverStarted:
                continue
            except (ClientGone, asyncio.CancelledError):  # it left the running batch: its slot is free
                self._check_age(worker)
                self._wake()
                raise
            except TimeoutError:
                limit = f"{self._policy.response_timeout_s:g} s (responseTimeout)"
                self._drop(worker, f"it did not answer within {limit}; raise it, or let the handler do less")
                worker.kill()
                raise WorkerTimeout(self._spec.model, self._policy.response_timeout_s) from None
            except WorkerDied as error:
                raise WorkerBroken(
                    f"The worker of model {self._spec.model} died while it had the request: {error}."
                ) from None
            return self._finish(worker, response)

    def _finish(self, worker: WorkerProcess, response: bytes) -> frames.HandlerResult:
        self._restarts.responded()
        self._check_age(worker)
        self._wake()
        result = frames.decode_result(response)
        self._on_result(self._spec.model, result)
        return result

    async def _free_worker(self) -> WorkerProcess:
        """Return the worker with the fewest batches; wait until one can take another batch."""
        while not (free := [worker for worker in self._workers if self._is_free(worker)]):
            if self._closed or self._given_up:
                raise NotReady(f"Model {self._spec.model} has no worker any more.")
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        return min(free, key=lambda worker: worker.pending)

    def _is_free(self, worker: WorkerProcess) -> bool:
        return worker.pending < self._room and not self._replacing.get(worker) and not worker.is_ending

    def _wake(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)

    async def close(self) -> None:
        """End all workers, including those that are starting; return when they are gone."""
        self._closed = True
        starting = [*self._tasks]
        for task in starting:
            task.cancel()
        self._workers = []
        self._wake()
        await asyncio.gather(*(worker.end() for worker in self._not_gone), *starting, return_exceptions=True)

    def _gpu(self, worker: int) -> int | None:
        return self._gpus[worker % len(self._gpus)] if self._gpus else None

    async def _add_more(self) -> None:
        """Add the optional workers one by one, as long as memory suffices; the model works without them."""
        wanted = self._policy.workers + self._policy.more_workers
        for index in range(self._policy.workers, wanted):
            held = max((worker.private_bytes() for worker in self._workers), default=0)
            if (free := resources.free_memory()) < _FREE_MEMORY_FACTOR * held:
                log.info(
                    "model %s: %d of %d workers, as one holds %d MiB and %d MiB are free; minWorkers sets their number",
                    self._spec.model, index, wanted, held // _MIB, free // _MIB,
                )  # fmt: skip
                return
            try:
                await self._add_worker(self._gpu(index))
            except ModelFailed as error:
                log.warning("model %s goes on with %d workers: %s", self._spec.model, index, error)
                return

    async def _add_worker(self, gpu: int | None) -> None:
        model, archive = self._spec.model, self._archive
        spec = dataclasses.replace(self._spec, gpu=gpu)
        try:
            worker = await WorkerProcess.start(self._context, spec, self._policy.startup_timeout_s)
        except HandlerNotLoaded as error:
            raise ModelFailed(describe_failure(spec, archive, error.failure)) from None
        except CannotStart as error:
            raise NotStarted(
                f"No process could be started for a worker of model {model} ({archive}): {error}."
            ) from None
        except WorkerDied as error:
            raise ModelFailed(
                f"The worker of model {model} ({archive}) died while it loaded its handler: {error}."
            ) from None
        except TimeoutError:
            raise ModelFailed(describe_late_start(model, archive, self._policy.startup_timeout_s)) from None
        if self._closed:
            await worker.end()
            return
        self._restarts.started()
        self._workers.append(worker)
        self._not_gone.add(worker)
        worker.gone.add_done_callback(lambda gone: self._is_gone(worker, gone.result()))
        self._report()
        self._wake()

    def _check_age(self, worker: WorkerProcess) -> None:
        """Replace a worker that is too old, and retire one that is replaced and has no batch left."""
        if worker not in self._workers:
            return
        if self._replacing.get(worker):
            if not worker.pending:
                self._retire(worker)
        elif worker not in self._replacing and (reason := too_old(worker, self._policy, time.monotonic())):
            log.info("model %s: worker %d is replaced: %s", self._spec.model, worker.pid, reason)
            self._replacing[worker] = False
            self._spawn(self._replace(worker))

    async def _replace(self, worker: WorkerProcess) -> None:
        """Start the replacement first, so that there is always a worker; a busy worker retires after its batches."""
        try:
            await self._add_worker(worker.gpu)
        except ModelFailed as error:
            if worker not in self._workers:  # it died in the meantime
                self._lose(error, worker.gpu)
            else:
                log.error("model %s: worker %d is kept: %s", self._spec.model, worker.pid, error)
                worker.served = 0
                del self._replacing[worker]
            return
        if worker not in self._workers:
            return
        if worker.pending:
            self._replacing[worker] = True
        else:
            self._retire(worker)

    def _retire(self, worker: WorkerProcess) -> None:
        self._forget(worker)
        worker.retire()
        self._report()

    def _is_gone(self, worker: WorkerProcess, how: str) -> None:
        self._not_gone.discard(worker)
        self._drop(worker, how)

    def _drop(self, worker: WorkerProcess, how: str) -> None:
        """Remove a worker that is gone or ending; restart it, unless it is being replaced or workers keep dying."""
        if worker not in self._workers:
            return
        is_replaced = worker in self._replacing
        self._forget(worker)
        log.error("model %s: worker %d is gone: %s", self._spec.model, worker.pid, how)
        self._report(how)
        if not is_replaced:
            model = f"model {self._spec.model} ({self._archive})"
            why = f"The worker of {model} died {MAX_DEATHS} times in a row; the last time {how}."
            self._lose(ModelFailed(why), worker.gpu)

    def _forget(self, worker: WorkerProcess) -> None:
        self._workers.remove(worker)
        self._replacing.pop(worker, None)

    def _report(self, how: str = "") -> None:
        self._on_change(len(self._workers), how)

    def _lose(self, error: ModelFailed, gpu: int | None) -> None:
        is_started = not isinstance(error, NotStarted)
        pause_s = self._restarts.after_death() if is_started else self._restarts.after_failed_start()
        if pause_s is None:
            self._give_up(error)
        else:
            self._spawn(self._restart(gpu, pause_s))

    async def _restart(self, gpu: int | None, pause_s: float) -> None:
        await self._pause(pause_s)
        try:
            await self._add_worker(gpu)
        except ModelFailed as error:
            log.error("%s", error)
            self._lose(error, gpu)

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        self._given_up = True
        self._wake()
        if not self._closed:
            self._on_failure(error)
