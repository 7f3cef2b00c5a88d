"""Builds models with their queues and workers: from prepared archives, and from model files."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from data_plane.batching.queue import BatchQueue
from data_plane.batching.sequences import SequenceLimits
from data_plane.log_lines import log_level
from data_plane.model_server.errors import ModelFailed
from data_plane.server.metrics import ServerMetrics
from mar_runtime.configuration.devices import GpuTurns
from mar_runtime.configuration.plan import FileRequest
from mar_runtime.configuration.settings import RuntimeSettings
from mar_runtime.metrics.exposition import HandlerMetrics
from mar_runtime.models.preparation import PreparedArchive
from mar_runtime.models.tensor_model import TensorModel
from mar_runtime.pool.forkserver import workers_context
from mar_runtime.pool.process_pool import ProcessPool
from mar_runtime.pool.worker_pool import PoolPolicy
from mar_runtime.worker.spec import HandlerSpec
from torchserve_compat.server.model import HandlerModel
from torchserve_compat.server.stateful import StatefulModel
from torchserve_compat.store.settings import batch_limits, sequence_headers

log = logging.getLogger(__name__)

# Called with the reason when a model can have no workers any more.
OnFailure = Callable[[BaseException], None]


@dataclass(frozen=True)
class ModelPart:
    """A queue of a model and its workers. `on_workers` is called with their number whenever it changes."""

    queue: BatchQueue[Any, Any]
    pool: ProcessPool | None = None  # None: a thread of the server, which never changes
    slots: int = 1  # batches that a worker processes at the same time
    on_workers: Callable[[int], None] = lambda _: None


@dataclass(frozen=True)
class BuiltModel:
    """One version of a model; its workers are not started yet."""

    model: HandlerModel | StatefulModel | TensorModel
    parts: Sequence[ModelPart]
    is_default: bool

    @property
    def has_workers(self) -> bool:
        """Return whether the model can process a batch."""
        return any(part.queue.concurrency for part in self.parts)

    async def start(self) -> None:
        """Return when the workers are ready; raises ModelFailed."""
        await asyncio.gather(*(part.pool.start() for part in self.parts if part.pool))

    async def close(self) -> None:
        """End the workers."""
        for part in self.parts:
            if part.pool:
                await part.pool.close()
        if isinstance(self.model, TensorModel):
            await self.model.close()


class ModelBuilder:
    """Builds models. `on_gpu_lost` is called when the server's own process cannot use the GPU any more."""

    def __init__(
        self,
        settings: RuntimeSettings,
        metrics: ServerMetrics,
        handler_metrics: HandlerMetrics,
        on_gpu_lost: OnFailure,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._handler_metrics = handler_metrics
        self._on_gpu_lost = on_gpu_lost
        self._context = workers_context(cuda=settings.cuda)
        self._gpu_turns = GpuTurns(settings.gpus)
        self._threads = 1
        self._ahead = False

    def share_processors(self, workers: int) -> None:
        """Divide the processors among this number of workers; models that are built later get the same share."""
        # One processor is left to the server: if torch uses all of them, both wait for each other.
        self._threads = self._settings.threads or max(1, round((self._settings.processors - 1) / workers))
        # With a spare processor, the server writes responses and reads requests while all models compute.
        self._ahead = self._settings.processors > workers

    async def build(self, prepared: PreparedArchive | FileRequest, on_failure: OnFailure) -> BuiltModel:
        """Build a model; raises ModelFailed for a file that cannot be loaded. `on_failure`: see OnFailure."""
        if isinstance(prepared, FileRequest):
            return await self._build_file(prepared)
        plan = prepared.plan
        gpus = self._gpu_turns.take(prepared.workers) if prepared.gpus is None else prepared.gpus
        if plan.sequences:
            return self._build_stateful(prepared, plan.sequences, gpus, on_failure)
        pool = self._pool(prepared, plan.policy, gpus, on_failure)
        model = self._handler_model(prepared, pool, plan.policy.workers)
        return BuiltModel(model, [ModelPart(model.queue, pool, model.slots)], prepared.request.version.is_default)

    def _build_stateful(
        self, prepared: PreparedArchive, limits: SequenceLimits, gpus: Sequence[int], on_failure: OnFailure
    ) -> BuiltModel:
        """Build a model with one pool and queue for each worker: a sequence must not move to another worker."""
        plan, options = prepared.plan, self._settings.options
        if options.max_requests or options.max_memory_mib:
            log.info("model %s keeps state, so running workers are not replaced", prepared.name)
        policy = replace(plan.policy, workers=1)
        pools = [
            self._pool(prepared, policy, [gpus[index % len(gpus)]] if gpus else (), on_failure)
            for index in range(plan.policy.workers)
        ]
        workers = [self._handler_model(prepared, pool, 1) for pool in pools]
        headers = sequence_headers(self._settings.properties)
        model = StatefulModel(workers, limits, headers, timeout_s=plan.limits.timeout_s)
        parts = [
            ModelPart(worker.queue, pool, on_workers=functools.partial(model.worker_changed, index))
            for index, (worker, pool) in enumerate(zip(workers, pools, strict=True))
        ]
        return BuiltModel(model, parts, prepared.request.version.is_default)

    def _pool(
        self, prepared: PreparedArchive, policy: PoolPolicy, gpus: Sequence[int], on_failure: OnFailure
    ) -> ProcessPool:
        spec, archive = self._handler_spec(prepared), prepared.request.version.archive
        on_result = self._handler_metrics.take
        return ProcessPool(
            self._context, spec, policy, archive=archive, gpus=gpus, on_result=on_result, on_failure=on_failure
        )

    def _handler_spec(self, prepared: PreparedArchive) -> HandlerSpec:
        plan, settings = prepared.plan, self._settings
        return HandlerSpec(
            model=prepared.name,
            folder=str(prepared.folder),
            handler=plan.handler,
            envelope=plan.envelope,
            batch_size=plan.stated_batch_size,
            threads=self._threads,
            gpu=None,
            packages=str(prepared.packages) if prepared.packages else None,
            limit_max_image_pixels=settings.is_on("limit_max_image_pixels"),
            installs=plan.installs,
            decodes=settings.is_on("decode_input_request"),
            continuous=plan.limits.continuous,
            metrics=str(settings.metrics) if settings.metrics else None,
            withheld=settings.withheld,
            log_level=log_level(),
        )

    def _handler_model(self, prepared: PreparedArchive, pool: ProcessPool, workers: int) -> HandlerModel:
        version, plan = prepared.request.version, prepared.plan
        stateful = plan.sequences is not None
        return HandlerModel(
            version.name, version.version, pool,
            limits=plan.limits,
            metrics=self._metrics.batches.of_model(version.name),
            workers=workers,
            envelope=plan.envelope,
            stateful=stateful,
            ahead=self._ahead and not stateful,
        )  # fmt: skip

    async def _build_file(self, request: FileRequest) -> BuiltModel:
        from mar_runtime.engines import CannotLoad, load_engine
        from mar_runtime.engines.config import read_config

        device = f"cuda:{self._gpu_turns.take(1)[0]}" if self._settings.gpus else "cpu"
        try:
            engine = await asyncio.to_thread(load_engine, request.path, device, self._threads)
            batch_size = read_config(request.path).batch_size
        except CannotLoad as error:
            raise ModelFailed(f"Model {request.name}: {error}.") from error
        own = {"batchSize": batch_size} if batch_size else {}
        limits = batch_limits(self._settings.options.batching, own, self._settings.properties)
        metrics = self._metrics.batches.of_model(request.name)
        model = TensorModel(
            request.name, "1", engine,
            limits=limits,
            metrics=metrics,
            on_lost=lambda error: self._on_gpu_lost(ModelFailed(f"Model {request.name}: {error.message}")),
            ahead=self._ahead,
        )  # fmt: skip
        # Objects that torch's import created are permanent: keep full collections from visiting them while serving.
        gc.collect()
        gc.freeze()
        return BuiltModel(model, [ModelPart(model.queue)], is_default=True)
