"""Brings models into service and takes them out again: archives into worker processes, bare files into threads."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mar_runtime import archives, requirements
from mar_runtime.archives import Unpacked
from mar_runtime.plan import ArchivePlan, ArchiveRequest, FileRequest, ModelRequest, Options, archive_plan
from mar_runtime.pool import WorkerPool
from mar_runtime.process import workers_context
from mar_runtime.sample_metrics import SampleMetrics
from mar_runtime.worker import HandlerSpec
from transformer_sdk.errors import ModelNotFound
from transformer_sdk.handler.model import HandlerModel
from transformer_sdk.model import LOADING, Models
from transformer_sdk.model_store.errors import ModelFailed
from transformer_sdk.model_store.settings import batch_limits
from transformer_sdk.server.metrics import ServerMetrics

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Where models are unpacked, what they may use, and how they are to be served."""

    work_dir: Path
    processors: int
    gpus: int
    properties: Mapping[str, str]
    options: Options


@dataclasses.dataclass(frozen=True)
class _Prepared:
    """An archive, unpacked."""

    request: ArchiveRequest
    unpacked: Unpacked
    plan: ArchivePlan


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
        self._context = workers_context(gpu=around.gpus > 0)
        self._pools: dict[str, list[WorkerPool]] = {}
        self._failures: asyncio.Queue[BaseException] = asyncio.Queue()
        self._threads = 1

    async def run(self, requests: Sequence[ModelRequest]) -> None:
        """Load all and watch for ever; raises ModelFailed for a model that cannot be served."""
        try:
            prepared = await asyncio.gather(*map(self._prepare, requests))
            workers = sum(one.plan.policy.workers if isinstance(one, _Prepared) else 1 for one in prepared)
            self._threads = max(1, self._around.processors // workers)
            await asyncio.gather(*(self._serve(name, of_model) for name, of_model in _by_name(prepared).items()))
            raise await self._failures.get()
        finally:
            await asyncio.gather(*(pool.close() for pools in self._pools.values() for pool in pools))

    async def load(self, name: str) -> None:
        """Load what the store holds under this name now, in place of what is served; raises ModelNotFound."""
        there = self._look_again()
        wanted = [request for request in there if request.name == name]
        if not wanted:
            raise ModelNotFound(name, {request.name for request in there})
        if name in self._models.names:
            await self.unload(name)
        self._models.mark_unready(name, LOADING)
        try:
            await self._serve(name, await asyncio.gather(*map(self._prepare, wanted)))
        except ModelFailed as error:
            self._models.mark_unready(name, f"could not be loaded: {error}")
            raise

    async def unload(self, name: str) -> None:
        """Requests that wait or run are answered first."""
        own = self._models.resolve(name)
        self._models.mark_unready(own, "is being unloaded")
        for version in self._models.versions(own):
            model = self._models.peek(own, version)
            if isinstance(model, HandlerModel):
                await model.queue.drained()
        for pool in self._pools.pop(own, []):
            await pool.close()
        self._models.remove(own)

    async def _prepare(self, request: ModelRequest) -> _Prepared | FileRequest:
        if isinstance(request, FileRequest):
            return request
        unpacked = await asyncio.to_thread(archives.unpack, request.path, self._folder(request) / "archive")
        yaml_config = _read_yaml(unpacked, request.version.archive)
        plan = archive_plan(request, unpacked.model, yaml_config, self._around.properties, self._around.options)
        if plan.requirements:
            file = unpacked.folder / plan.requirements
            await requirements.install(file, self._folder(request) / "packages", request.name)
        return _Prepared(request, unpacked, plan)

    async def _serve(self, name: str, prepared: Sequence[_Prepared | FileRequest]) -> None:
        for one in prepared:
            if isinstance(one, FileRequest):
                await self._serve_file(one)
            else:
                await self._serve_archive(one)
        self._models.mark_ready(name)
        log.info("model %s is ready", name)

    async def _serve_archive(self, prepared: _Prepared) -> None:
        version, plan = prepared.request.version, prepared.plan
        spec = HandlerSpec(
            model=version.name,
            folder=str(prepared.unpacked.folder),
            handler=plan.handler,
            envelope=plan.envelope,
            batch_size=plan.limits.max_batch_size,
            threads=self._threads,
            gpu=None,
            packages=str(self._folder(prepared.request) / "packages") if plan.requirements else None,
            limit_max_image_pixels=self._around.properties.get("limit_max_image_pixels", "true").lower() == "true",
        )
        pool = WorkerPool(self._context, spec, version.archive, plan.policy, self._around.gpus, self._samples.add)
        self._pools.setdefault(version.name, []).append(pool)
        await pool.start()
        metrics = self._metrics.batches.of_model(version.name)
        model = HandlerModel(version.name, version.version, pool, plan.limits, metrics, plan.policy.workers)
        pool.watch(lambda workers, why: self._on_workers(model, workers, why), self._failures.put_nowait)
        self._models.add(model, default=version.is_default)

    async def _serve_file(self, request: FileRequest) -> None:
        from mar_runtime.engines import CannotLoad, load_engine
        from mar_runtime.engines.config import read_config
        from mar_runtime.tensor_model import TensorModel

        device = "cuda:0" if self._around.gpus else "cpu"
        try:
            engine = await asyncio.to_thread(load_engine, request.path, device, self._threads)
            batch_size = read_config(request.path).batch_size
        except CannotLoad as error:
            raise ModelFailed(f"Model {request.name}: {error}.") from error
        own = {"batchSize": batch_size} if batch_size else {}
        limits = batch_limits(self._around.options.batching, own, self._around.properties)
        metrics = self._metrics.batches.of_model(request.name)
        self._models.add(TensorModel(request.name, "1", engine, limits, metrics), default=True)

    def _on_workers(self, model: HandlerModel, workers: int, why: str) -> None:
        """As many batches run at a time as there are workers; without any, the model is not ready."""
        model.queue.concurrency = workers
        if workers:
            self._models.mark_ready(model.name)
        else:
            self._models.mark_unready(model.name, f"lost its worker ({why}); a new one is being started")

    def _folder(self, request: ArchiveRequest) -> Path:
        return self._around.work_dir / "models" / request.name / request.version.version


def _by_name(prepared: Sequence[_Prepared | FileRequest]) -> dict[str, list[_Prepared | FileRequest]]:
    by_name: dict[str, list[_Prepared | FileRequest]] = {}
    for one in prepared:
        by_name.setdefault(one.name if isinstance(one, FileRequest) else one.request.name, []).append(one)
    return by_name


def _read_yaml(unpacked: Unpacked, archive: str) -> dict[str, Any]:
    """The archive's own settings; raises ModelFailed."""
    name = unpacked.model.get("configFile")
    if not name:
        return {}
    try:
        document = yaml.safe_load((unpacked.folder / name).read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise ModelFailed(f"{archive}: its {name} cannot be read: {error}. Correct it and pack it again.") from error
    return document if isinstance(document, dict) else {}
