"""Loads models, keeps their health up to date, and unloads them."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TypeVar

from data_plane.errors import NotReady, ServingError, UnknownModel
from data_plane.health import State
from data_plane.model import Models
from data_plane.model_server.errors import StartError
from data_plane.server.metrics import ServerMetrics
from mar_runtime.configuration.plan import FileRequest, ModelRequest
from mar_runtime.configuration.settings import RuntimeSettings
from mar_runtime.limits import FAIL_TOO_TIME
from mar_runtime.metrics.exposition import HandlerMetrics
from mar_runtime.metrics.start import StartTimes
from mar_runtime.models.builder import BuiltModel, ModelBuilder, ModelPart, OnFailure
from mar_runtime.models.preparation import PreparedArchive, prepare
from mar_runtime.pool import forkserver

log = logging.getLogger(__name__)

T = TypeVar("T")


class LoadFailed(ServingError):
    """A model could not be loaded while the server runs."""

    component = "model"


class ModelSupervisor:
    """Runs the models that `models` lists. It is also the repository for loading and unloading at run time."""

    def __init__(
        self,
        models: Models,
        settings: RuntimeSettings,
        read_directory: Callable[[], Sequence[ModelRequest]],
        *,
        metrics: ServerMetrics,
        handler_metrics: HandlerMetrics,
    ) -> None:
        self._models = models
        self._settings = settings
        self._read_directory = read_directory
        self._failed: asyncio.Queue[BaseException] = asyncio.Queue()
        self._builder = ModelBuilder(settings, metrics, handler_metrics, self._failed.put_nowait)
        self._built: dict[str, list[BuiltModel]] = {}
        self._changing = asyncio.Lock()
        self._change: asyncio.Task[None] | None = None  # the last load or unload

    async def run(self, requests: Sequence[ModelRequest], times: StartTimes) -> None:
        """Load all models, and watch them for ever; raises ModelFailed for a model that cannot be served."""
        async with self._changing:
            prepared = await self._prepare(requests, len(requests))
            if not any(isinstance(one, PreparedArchive) for one in prepared):
                await asyncio.to_thread(forkserver.end)
            times.end("archives")
            self._builder.share_processors(
                sum(one.workers if isinstance(one, PreparedArchive) else 1 for one in prepared)
            )
            by_name: dict[str, list[PreparedArchive | FileRequest]] = {}
            for one in prepared:
                by_name.setdefault(one.name, []).append(one)
            end = self._failed.put_nowait
            await _all(self._serve(name, versions, end) for name, versions in by_name.items())
            times.end("models")
            times.report()
        error = await self._failed.get()
        for name in self._built:
            self._refuse_waiting(name)
        raise error

    def drop_gone(self) -> None:
        """Remove the requests from all queues whose clients are gone."""
        for part in self._parts():
            part.queue.drop_gone()

    async def close(self) -> None:
        """End all workers."""
        if self._change:
            self._change.cancel()
            await asyncio.wait([self._change])
        await asyncio.gather(*map(self._close, list(self._built)))

    async def load(self, name: str) -> None:
        """Load the model of this name from the model directory; it replaces the one that is served.

        Raises UnknownModel and LoadFailed. A model that fails, now or later, goes out of service alone.
        """
        await self._complete(self._load, name)

    async def unload(self, name: str) -> None:
        """Unload a model after its queued and running requests; raises UnknownModel."""
        await self._complete(self._unload_known, name)

    async def _complete(self, change: Callable[[str], Coroutine[None, None, None]], name: str) -> None:
        """Complete a change even if its caller is cancelled, and start no other change before."""
        await self._changing.acquire()
        self._change = asyncio.ensure_future(change(name))
        self._change.add_done_callback(lambda _: self._changing.release())
        await asyncio.shield(self._change)

    async def _load(self, name: str) -> None:
        try:
            await self._replace(name)
        except UnknownModel:
            raise
        except Exception as error:
            is_known = isinstance(error, StartError)
            reason = str(error) if is_known else f"Model {name} could not be loaded: {type(error).__name__}: {error}"
            log.error("model %s was not loaded: %s", name, reason, exc_info=None if is_known else error)
            if (health := self._models.health(name)) and not health.is_ready:
                await self._unload(name)
            raise LoadFailed(reason) from error

    async def _replace(self, name: str) -> None:
        found = await asyncio.to_thread(self._read_directory)  # it reads archives
        wanted = [request for request in found if request.name == name]
        if not wanted:
            raise UnknownModel(name, {request.name for request in found})
        if name in self._models.names:
            await self._unload(name)
        self._models.record(name, State.LOADING)
        prepared = await self._prepare(wanted, len(self._parts()) + len(wanted))
        await self._serve(name, prepared, functools.partial(self._give_up, name))

    async def _unload_known(self, name: str) -> None:
        await self._unload(self._models.resolve(name))

    async def _unload(self, name: str) -> None:
        self._models.record(name, State.UNLOADING)
        for built in self._built.get(name, ()):
            await built.model.drained()
        await self._close(name)
        self._models.remove(name)
        gc.unfreeze()  # so that the model's objects can be collected

    async def _close(self, name: str) -> None:
        for built in self._built.pop(name, ()):
            await built.close()

    async def _prepare(self, requests: Sequence[ModelRequest], models: int) -> list[PreparedArchive | FileRequest]:
        async def prepare_one(request: ModelRequest) -> PreparedArchive | FileRequest:
            return request if isinstance(request, FileRequest) else await prepare(request, self._settings, models)

        return await _all(map(prepare_one, requests))

    async def _serve(self, name: str, versions: Sequence[PreparedArchive | FileRequest], on_failure: OnFailure) -> None:
        for prepared in versions:
            built = await self._builder.build(prepared, on_failure)
            self._built.setdefault(name, []).append(built)  # before the start, so that `close` ends it
            await built.start()
            self._models.add(built.model, default=built.is_default)
        self._models.record(name, State.READY)
        for built in self._built[name]:
            for part in built.parts:
                if part.pool:
                    part.pool.watch(functools.partial(self._on_workers, name, part))
        log.info("model %s is ready", name)

    def _on_workers(self, name: str, part: ModelPart, workers: int, reason: str) -> None:
        """Run as many batches at a time as the workers can process; a version without workers is not ready."""
        part.queue.concurrency = workers * part.slots
        part.on_workers(workers)
        if all(built.has_workers for built in self._built.get(name, ())):
            self._models.record(name, State.READY)
        elif not workers:
            self._models.record(name, State.RECOVERING, f"lost its worker ({reason}); a new one is being started")

    def _give_up(self, name: str, error: BaseException) -> None:
        """Take a model out of service that was loaded at run time; the others are not affected."""
        log.error("model %s is given up: %s", name, error)
        self._models.record(name, State.FAILED, f"is given up until it is loaded again. {str(error).rstrip('.')}")
        self._refuse_waiting(name)

    def _refuse_waiting(self, name: str) -> None:
        """Fail the requests that wait for a worker: there will be none."""
        for built in self._built.get(name, ()):
            for part in built.parts:
                part.queue.refuse(NotReady(f"Model {name} has no worker any more."))

    def _parts(self) -> list[ModelPart]:
        return [part for versions in self._built.values() for built in versions for part in built.parts]


async def _all(work: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Do these at the same time, and return their results.

    Where one fails, the others have a moment to fail as well, so that people can mend all of them at once: the first in
    their order is raised, and the others are logged.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except StartError:
        await asyncio.wait(tasks, timeout=FAIL_TOO_TIME)
    first, *others = [error for task in tasks if task.done() and (error := task.exception())]
    for error in others:
        log.error("%s", error)
    if others and isinstance(first, StartError):
        raise type(first)(f"{first} The log has {len(others)} more.") from first
    raise first
