"""Brings models into service and takes them out again: archives into processes or threads, bare files into a thread."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import gc
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from data_plane.batching.queue import BatchQueue
from data_plane.batching.sequences import SequenceLimits
from data_plane.errors import ModelNotFound, NotReady, ServingError
from data_plane.health import Event
from data_plane.model import Models
from data_plane.model_server.errors import ModelFailed, StartError
from data_plane.server.metrics import ServerMetrics
from mar_runtime.archives import requirements
from mar_runtime.archives.unpack import Unpacked, unpack
from mar_runtime.configuration.devices import GpuTurns, choose
from mar_runtime.configuration.plan import ArchivePlan, ArchiveRequest, FileRequest, ModelRequest, Options, archive_plan
from mar_runtime.metrics.exposition import SampleMetrics
from mar_runtime.models.tensor_model import TensorModel
from mar_runtime.pool.process_pool import WorkerPool
from mar_runtime.pool.thread_pool import HandlerThreads
from mar_runtime.pool.worker_pool import PoolPolicy, Runner
from mar_runtime.pool.worker_process import workers_context
from mar_runtime.worker.spec import HandlerSpec
from torchserve_compat.server.model import HandlerModel
from torchserve_compat.server.stateful import StatefulModel
from torchserve_compat.store import notices
from torchserve_compat.store.known_settings import Runtime
from torchserve_compat.store.settings import batch_limits, sequence_headers

log = logging.getLogger(__name__)


# Learns why a model can have no workers any more.
OnFailure = Callable[[BaseException], None]


class LoadFailed(ServingError):
    """A model that was to be loaded while the server runs cannot be."""

    component = "model"


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Where models are unpacked, what they may use, and how they are to be served."""

    work_dir: Path
    processors: int
    threads: int | None  # of torch, for each worker; None leaves it to the server
    gpus: int
    cuda: bool  # a GPU can be seen, though `gpus` may be 0
    metrics: Path | None  # definitions for handlers, instead of TorchServe's own
    withheld: tuple[str, ...]  # variables of the environment that workers and pip do not get
    properties: Mapping[str, str]
    options: Options


@dataclasses.dataclass(frozen=True)
class _Prepared:
    """An archive, unpacked."""

    request: ArchiveRequest
    unpacked: Unpacked
    plan: ArchivePlan
    gpus: tuple[int, ...] | None  # that its workers take in turn, () for the CPU; None for any

    @property
    def workers(self) -> int:
        """Where memory goes far enough."""
        return self.plan.policy.workers + self.plan.policy.more_workers


@dataclasses.dataclass(frozen=True)
class _Part:
    """A queue of a version of a model, and what works it off. `on_workers` learns how many workers there are."""

    model: HandlerModel | StatefulModel | TensorModel
    queue: BatchQueue[Any, Any]
    runner: Runner | TensorModel
    slots: int = 1  # batches that a worker takes at a time
    on_workers: Callable[[int], None] = lambda _: None


class ServedModels:
    """Keeps what `Models` says true. It is also the repository that models are loaded from while the server runs."""

    def __init__(
        self,
        models: Models,
        metrics: ServerMetrics,
        samples: SampleMetrics,
        around: Surroundings,
        look_again: Callable[[], Sequence[ModelRequest]],
    ) -> None:
        self._models = models
        self._metrics = metrics
        self._samples = samples
        self._around = around
        self._look_again = look_again
        self._context = workers_context(cuda=around.cuda)
        self._gpu_turns = GpuTurns(around.gpus)
        self._parts: dict[str, list[_Part]] = {}
        self._failed: asyncio.Queue[BaseException] = asyncio.Queue()
        self._changing = asyncio.Lock()
        self._change: asyncio.Task[None] | None = None  # the last one that a request asked for
        self._threads = 1
        self._ahead = False

    async def run(self, requests: Sequence[ModelRequest]) -> None:
        """Load all and watch for ever; raises ModelFailed for a model that cannot be served."""
        async with self._changing:
            prepared = await self._prepared(requests, len(requests))
            workers = sum(one.workers if isinstance(one, _Prepared) else 1 for one in prepared)
            # One processor is left to the server: where torch takes all of them, both wait for each other.
            self._threads = self._around.threads or max(1, round((self._around.processors - 1) / workers))
            # With a processor to spare, the server writes responses and reads requests while all models compute.
            self._ahead = self._around.processors > workers
            end = self._failed.put_nowait
            await asyncio.gather(*(self._serve(name, of_model, end) for name, of_model in _by_name(prepared).items()))
        error = await self._failed.get()
        for name in self._parts:
            self._refuse_waiting(name)
        raise error

    def drop_gone(self) -> None:
        """Takes those requests out of all queues whose callers have hung up."""
        for parts in self._parts.values():
            for part in parts:
                part.queue.drop_gone()

    async def close(self) -> None:
        """End everything that runs models."""
        if self._change:
            self._change.cancel()
            await asyncio.wait([self._change])
        await asyncio.gather(*map(self._close, list(self._parts)))

    async def load(self, name: str) -> None:
        """Load what the store holds under this name now, in place of what is served.

        Raises ModelNotFound; and LoadFailed, which leaves this model out of service and all others alone. So does what
        goes wrong with it later.
        """
        await self._to_the_end(self._load, name)

    async def unload(self, name: str) -> None:
        """Requests that wait or run are answered first."""
        await self._to_the_end(self._unload_known, name)

    async def _to_the_end(self, change: Callable[[str], Coroutine[None, None, None]], name: str) -> None:
        """A caller that gives up, as at its deadline, does not leave a change half done; nor is the next one begun."""
        await self._changing.acquire()
        self._change = asyncio.ensure_future(change(name))
        self._change.add_done_callback(lambda _: self._changing.release())
        await asyncio.shield(self._change)

    async def _load(self, name: str) -> None:
        try:
            await self._exchange(name)
        except ModelNotFound:
            raise
        except Exception as error:
            is_known = isinstance(error, StartError)
            reason = str(error) if is_known else f"Model {name} could not be loaded: {type(error).__name__}: {error}"
            log.error("model %s was not loaded: %s", name, reason, exc_info=None if is_known else error)
            if (health := self._models.health(name)) and not health.is_ready:
                await self._unload(name)
            raise LoadFailed(reason) from error

    async def _exchange(self, name: str) -> None:
        there = await asyncio.to_thread(self._look_again)  # it reads archives
        wanted = [request for request in there if request.name == name]
        if not wanted:
            raise ModelNotFound(name, {request.name for request in there})
        if name in self._models.names:
            await self._unload(name)
        self._models.record(name, Event.LOAD)
        prepared = await self._prepared(wanted, sum(map(len, self._parts.values())) + len(wanted))
        await self._serve(name, prepared, functools.partial(self._give_up, name))

    async def _unload_known(self, name: str) -> None:
        await self._unload(self._models.resolve(name))

    async def _unload(self, name: str) -> None:
        self._models.record(name, Event.UNLOAD)
        for part in self._parts.get(name, []):
            await part.model.drained()
        await self._close(name)
        self._models.remove(name)
        gc.unfreeze()  # what this model held can go

    async def _close(self, name: str) -> None:
        for part in self._parts.pop(name, []):
            await part.runner.close()

    async def _prepared(self, requests: Sequence[ModelRequest], models: int) -> list[_Prepared | FileRequest]:
        """`models`: how many there will be, to share what there is."""
        return await asyncio.gather(*(self._prepare(request, models) for request in requests))

    async def _prepare(self, request: ModelRequest, models: int) -> _Prepared | FileRequest:
        if isinstance(request, FileRequest):
            return request
        unpacked = await asyncio.to_thread(unpack, request.path, self._folder(request) / "archive")
        yaml_config = _read_yaml(unpacked, request.version.archive)
        for notice in notices.of_archive(Runtime.MAR, request.version.archive, yaml_config):
            log.warning("%s", notice)
        around = self._around
        gpus = choose(request.version.archive, yaml_config, around.gpus)
        share = (around.gpus if gpus is None else len(gpus) or around.processors) // models
        plan = archive_plan(request, unpacked.manifest, yaml_config, around.properties, around.options, share)
        if plan.requirements:
            file = unpacked.folder / plan.requirements
            packages = self._folder(request) / "packages"
            await requirements.install(file, packages, request.name, withheld=around.withheld)
        return _Prepared(request, unpacked, plan, gpus)

    async def _serve(self, name: str, prepared: Sequence[_Prepared | FileRequest], on_failure: OnFailure) -> None:
        for one in prepared:
            if isinstance(one, FileRequest):
                await self._serve_file(one)
            else:
                await self._serve_archive(one, on_failure)
        self._models.record(name, Event.READY)
        for part in self._parts[name]:
            if not isinstance(part.runner, TensorModel):
                part.runner.watch(functools.partial(self._on_workers, name, part))
        log.info("model %s is ready", name)

    async def _serve_archive(self, prepared: _Prepared, on_failure: OnFailure) -> None:
        version, plan = prepared.request.version, prepared.plan
        spec = HandlerSpec(
            model=version.name,
            folder=str(prepared.unpacked.folder),
            handler=plan.handler,
            envelope=plan.envelope,
            batch_size=plan.stated_batch_size,
            threads=self._threads,
            gpu=None,
            packages=str(self._folder(prepared.request) / "packages") if plan.requirements else None,
            limit_max_image_pixels=self._is_on("limit_max_image_pixels"),
            parses_json=self._is_on("decode_input_request"),
            continuous=plan.limits.continuous,
            metrics=str(self._around.metrics) if self._around.metrics else None,
            withheld=self._around.withheld,
        )
        gpus = self._gpu_turns.take(prepared.workers) if prepared.gpus is None else prepared.gpus
        if plan.sequences:
            one = dataclasses.replace(plan.policy, workers=1)
            runners = [
                self._runner(prepared, spec, one, [gpus[index % len(gpus)]] if gpus else (), on_failure)
                for index in range(plan.policy.workers)
            ]
            await self._serve_stateful(prepared, plan.sequences, runners)
            return
        runner = self._runner(prepared, spec, plan.policy, gpus, on_failure)
        model = self._handler_model(prepared, runner, plan.policy.workers)
        self._parts.setdefault(version.name, []).append(_Part(model, model.queue, runner, model.slots))
        await runner.start()
        self._models.add(model, default=version.is_default)

    async def _serve_stateful(self, prepared: _Prepared, limits: SequenceLimits, runners: Sequence[Runner]) -> None:
        """Each of the `runners` has one worker, and a queue of its own: its sequences must not go to another."""
        version, options = prepared.request.version, self._around.options
        if options.max_requests or options.max_memory_mib:
            log.info("model %s keeps state: its workers are not replaced while they live", version.name)
        workers = [self._handler_model(prepared, runner, 1) for runner in runners]
        headers = sequence_headers(self._around.properties)
        model = StatefulModel(workers, limits, headers, timeout_s=prepared.plan.limits.timeout_s)
        parts = [
            _Part(model, worker.queue, runner, on_workers=functools.partial(model.worker_changed, index))
            for index, (worker, runner) in enumerate(zip(workers, runners, strict=True))
        ]
        self._parts.setdefault(version.name, []).extend(parts)
        await asyncio.gather(*(runner.start() for runner in runners))
        self._models.add(model, default=version.is_default)

    def _runner(
        self, prepared: _Prepared, spec: HandlerSpec, policy: PoolPolicy, gpus: Sequence[int], on_failure: OnFailure
    ) -> Runner:
        how = (spec, prepared.request.version.archive, policy, gpus, self._samples.take)
        if prepared.plan.worker_type == "thread":
            return HandlerThreads(*how, self._failed.put_nowait)  # what hangs in it is the server's, in any case
        return WorkerPool(self._context, *how, on_failure)

    def _handler_model(self, prepared: _Prepared, runner: Runner, workers: int) -> HandlerModel:
        version, plan = prepared.request.version, prepared.plan
        stateful = plan.sequences is not None
        return HandlerModel(
            version.name, version.version, runner, plan.limits, self._metrics.batches.of_model(version.name), workers,
            envelope=plan.envelope, stateful=stateful,
            ahead=self._ahead and plan.worker_type == "process" and not stateful,
        )  # fmt: skip

    def _is_on(self, setting: str) -> bool:
        """Of a setting that is on where nothing is said."""
        return self._around.properties.get(setting, "true").strip().lower() == "true"

    async def _serve_file(self, request: FileRequest) -> None:
        from mar_runtime.engines import CannotLoad, load_engine
        from mar_runtime.engines.config import read_config

        device = f"cuda:{self._gpu_turns.take(1)[0]}" if self._around.gpus else "cpu"
        try:
            engine = await asyncio.to_thread(load_engine, request.path, device, self._threads)
            batch_size = read_config(request.path).batch_size
        except CannotLoad as error:
            raise ModelFailed(f"Model {request.name}: {error}.") from error
        own = {"batchSize": batch_size} if batch_size else {}
        limits = batch_limits(self._around.options.batching, own, self._around.properties)
        metrics = self._metrics.batches.of_model(request.name)
        model = TensorModel(request.name, "1", engine, limits, metrics, ahead=self._ahead)
        self._parts.setdefault(request.name, []).append(_Part(model, model.queue, model))
        self._models.add(model, default=True)
        # What torch's import made stays for good: a full collection would look at all of it, in the middle of serving.
        gc.collect()
        gc.freeze()

    def _on_workers(self, name: str, part: _Part, workers: int, why: str) -> None:
        """As many batches run at a time as the workers take; a version without any worker is not ready."""
        part.queue.concurrency = workers * part.slots
        part.on_workers(workers)
        parts = self._parts.get(name, ())
        lacking = {one.model.version for one in parts} - {one.model.version for one in parts if one.queue.concurrency}
        if not lacking:
            self._models.record(name, Event.READY)
        elif not workers:
            self._models.record(name, Event.WORKERS_LOST, f"lost its worker ({why}); a new one is being started")

    def _give_up(self, name: str, error: BaseException) -> None:
        """A model that was loaded while the server runs does not take it from the others."""
        log.error("model %s is given up: %s", name, error)
        self._models.record(name, Event.FAIL, f"is given up until it is loaded again. {str(error).rstrip('.')}")
        self._refuse_waiting(name)

    def _refuse_waiting(self, name: str) -> None:
        """Fail the requests that wait for a worker: there will be none."""
        for part in self._parts.get(name, ()):
            part.queue.refuse(NotReady(f"Model {name} has no worker any more."))

    def _folder(self, request: ArchiveRequest) -> Path:
        """Of the server's own making: a model's name may hold anything."""
        version = request.version
        return self._around.work_dir / "models" / f"{quote(version.name, safe='')}@{quote(version.version, safe='')}"


def _by_name(prepared: Sequence[_Prepared | FileRequest]) -> dict[str, list[_Prepared | FileRequest]]:
    by_name: dict[str, list[_Prepared | FileRequest]] = {}
    for one in prepared:
        by_name.setdefault(one.name if isinstance(one, FileRequest) else one.request.name, []).append(one)
    return by_name


def _read_yaml(unpacked: Unpacked, archive: str) -> dict[str, Any]:
    """The archive's own settings; raises ModelFailed."""
    name = unpacked.manifest.config_file
    if not name:
        return {}
    try:
        document = yaml.safe_load((unpacked.folder / name).read_bytes())
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:  # a date may be none, for one
        raise ModelFailed(f"{archive}: its {name} cannot be read: {error}. Correct it and pack it again.") from error
    return document if isinstance(document, dict) else {}
