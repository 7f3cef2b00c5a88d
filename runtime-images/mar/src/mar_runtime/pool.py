"""The worker processes of one model version: kept alive, replaced when old, given up when they keep dying."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext

from mar_runtime.process import WorkerDied, WorkerProcess
from mar_runtime.worker import HandlerNotLoaded, HandlerSpec
from transformer_sdk.errors import NotReady, UpstreamBroken, UpstreamTimeout
from transformer_sdk.handler import frames
from transformer_sdk.model_store.errors import ModelFailed

log = logging.getLogger(__name__)

_MAX_DEATHS = 5
_WITHIN_S = 600.0
_MEMORY_CHECK_S = 1.0
_MIB = 1024 * 1024


@dataclass(frozen=True)
class PoolPolicy:
    """How many workers, and when one is taken out of service. Nothing is recycled at 0."""

    workers: int = 1
    response_timeout_s: float = 120.0
    startup_timeout_s: float = 120.0
    max_requests: int = 0
    max_memory_mib: int = 0


class WorkerBroken(UpstreamBroken):
    """A worker died while it held the request."""

    component = "worker"


class WorkerTimeout(UpstreamTimeout):
    """A worker took too long and was ended."""

    component = "worker"


class WorkerPool:
    """A Transport to the workers of one handler."""

    def __init__(
        self,
        context: ForkServerContext,
        spec: HandlerSpec,
        archive: str,
        policy: PoolPolicy,
        gpus: int,
        on_samples: Callable[[list[frames.Sample]], None],
    ) -> None:
        self._context = context
        self._spec = spec
        self._archive = archive
        self._policy = policy
        self._devices = itertools.cycle(range(gpus) if gpus else [None])
        self._on_change: Callable[[int, str], None] = _ignore
        self._on_failure: Callable[[BaseException], None] = _ignore
        self._on_samples = on_samples
        self._idle: deque[WorkerProcess] = deque()
        self._workers: set[WorkerProcess] = set()
        self._deaths: deque[float] = deque(maxlen=_MAX_DEATHS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._memory_checked = 0.0

    def watch(self, on_change: Callable[[int, str], None], on_failure: Callable[[BaseException], None]) -> None:
        """`on_change` learns how many workers there are and how the last one ended, `on_failure` why there are none."""
        self._on_change = on_change
        self._on_failure = on_failure

    async def start(self) -> None:
        """Returns when all workers are ready; raises ModelFailed where the handler cannot be loaded."""
        try:
            await asyncio.gather(*(self._add_worker() for _ in range(self._policy.workers)))
        except BaseException:
            await self.close()
            raise

    async def send(self, batch: frames.Batch, deadline: float) -> frames.Result:  # noqa: ARG002 - the queue's to watch
        """The result of a free worker; the queue never sends more batches than there are workers."""
        if not self._idle:
            raise NotReady(f"Model {self._spec.model} has no worker at the moment; a new one is being started.")
        worker = self._idle.popleft()
        try:
            answer = await worker.ask(frames.encode(batch), self._policy.response_timeout_s)
        except TimeoutError:
            self._drop(worker, "it did not answer in time and was ended")
            worker.kill()
            raise WorkerTimeout(
                f"Model {self._spec.model} did not answer within {self._policy.response_timeout_s:g} s "
                "(responseTimeout); its worker is replaced."
            ) from None
        except WorkerDied as error:
            raise WorkerBroken(
                f"The worker of model {self._spec.model} died while it had the request: {error}."
            ) from None
        self._put_back(worker)
        result = frames.decode_result(answer)
        if result.samples:
            self._on_samples(result.samples)
        return result

    async def close(self) -> None:
        """End all workers."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        for worker in self._workers:
            worker.kill()
        self._workers.clear()
        self._idle.clear()

    async def _add_worker(self) -> None:
        try:
            spec = dataclasses.replace(self._spec, gpu=next(self._devices))
            worker = await WorkerProcess.start(self._context, spec, self._policy.startup_timeout_s)
        except HandlerNotLoaded as error:
            raise ModelFailed(describe_failure(self._spec.model, self._archive, error.failure)) from None
        except WorkerDied as error:
            raise ModelFailed(
                f"The worker of model {self._spec.model} ({self._archive}) died while it loaded its handler: {error}."
            ) from None
        except TimeoutError:
            raise ModelFailed(
                f"Model {self._spec.model} ({self._archive}) was not loaded within {self._policy.startup_timeout_s:g} s "
                "(startupTimeout); raise it, or load less in `initialize`."
            ) from None
        worker.when_gone(lambda how: self._drop(worker, how))
        self._workers.add(worker)
        self._idle.append(worker)
        self._on_change(len(self._workers), "")

    def _put_back(self, worker: WorkerProcess) -> None:
        if reason := self._too_old(worker):
            log.info("model %s: worker %d is replaced: %s", self._spec.model, worker.pid, reason)
            worker.served = 0  # once
            self._spawn(self._replace(worker))
        if worker in self._workers:
            self._idle.append(worker)

    def _too_old(self, worker: WorkerProcess) -> str:
        policy = self._policy
        if policy.max_requests and worker.served >= policy.max_requests:
            return f"it served {worker.served} batches"
        now = time.monotonic()
        if policy.max_memory_mib and now - self._memory_checked > _MEMORY_CHECK_S:
            self._memory_checked = now
            held = worker.memory_bytes() // _MIB
            if held > policy.max_memory_mib:
                return f"it holds {held} MiB of memory"
        return ""

    async def _replace(self, worker: WorkerProcess) -> None:
        """The new one first: there is no moment without a worker."""
        await self._add_worker()
        while worker in self._workers:
            if worker in self._idle:
                self._idle.remove(worker)
                self._workers.discard(worker)
                worker.retire()
                self._on_change(len(self._workers), "")
                return
            await asyncio.sleep(0.05)

    def _drop(self, worker: WorkerProcess, how: str) -> None:
        """A worker is gone: a new one takes its place, unless they keep dying."""
        if worker not in self._workers:
            return
        self._workers.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        log.error("model %s: worker %d is gone: %s", self._spec.model, worker.pid, how)
        self._on_change(len(self._workers), how)
        now = time.monotonic()
        self._deaths.append(now)
        if len(self._deaths) == _MAX_DEATHS and now - self._deaths[0] < _WITHIN_S:
            self._give_up(
                ModelFailed(
                    f"The worker of model {self._spec.model} ({self._archive}) died {_MAX_DEATHS} times within "
                    f"{_WITHIN_S / 60:g} minutes; the last time {how}. Correct the handler, or look at its memory."
                )
            )
        else:
            self._spawn(self._add_worker())

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._spawned)

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        if not self._closed:
            self._on_failure(error)


def _ignore(*_: object) -> None:
    return


def describe_failure(model: str, archive: str, failure: dict[str, str | None]) -> str:
    """One line: the model, the exception, the place in the user's code, what to do."""
    if module := failure["missing_module"]:
        cure = f"Add {module} to the archive's requirements.txt with install_py_dep_per_model=true, or to the image."
    else:
        cure = "Correct the handler or the archive and upload it again."
    return (
        f"Model {model} ({archive}) could not be loaded: "
        f"{failure['type']}: {failure['message']} (at {failure['where']}). {cure}"
    )
