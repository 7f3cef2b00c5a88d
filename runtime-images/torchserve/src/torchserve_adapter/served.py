"""The model versions that TorchServe serves, each with its own queue."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.batching.queue import BatchQueue
from data_plane.errors import NotReady
from data_plane.model import Models
from model_archive.configuration import file_name
from torchserve_adapter.batching import BatchRequirements
from torchserve_adapter.client import TorchServeClient, TorchServeVersion
from torchserve_adapter.process import WorkerDeaths
from torchserve_adapter.transport import VersionTransport
from torchserve_compat.server.model import HandlerModel
from torchserve_compat.server.stateful import StatefulModel
from torchserve_compat.store.settings import sequence_headers

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _ServedVersion:
    """One version: its model, its queue, and the transport to its workers."""

    model: HandlerModel | StatefulModel
    queue: BatchQueue[Any, Any]
    transport: VersionTransport
    slots: int  # frames that a worker processes at the same time


class ServedVersions:
    """Adds versions to `models`. Each runs as many batches as it has workers; without workers, its requests wait."""

    def __init__(
        self,
        models: Models,
        client: TorchServeClient,
        requirements: BatchRequirements,
        *,
        metrics: BatchMetricsRegistry,
        deaths: WorkerDeaths,
    ) -> None:
        self._models = models
        self._client = client
        self._requirements = requirements
        self._metrics = metrics
        self._deaths = deaths
        self._versions: dict[str, dict[str, _ServedVersion]] = {}
        self._registered: dict[str, BatchLimits] = {}  # of archives that were registered at run time

    def has(self, name: str, version: str) -> bool:
        """Return whether this version is served."""
        return name in self._models.names and version in self._models.versions(name)

    def expect(self, archive: str, limits: BatchLimits) -> None:
        """Remember the limits for an archive that is about to be registered: TorchServe does not know all of them."""
        self._registered[file_name(archive)] = limits

    def update(self, name: str, described: Sequence[TorchServeVersion]) -> None:
        """Set a model's versions; the first is the default."""
        known = self._versions.get(name, {}) if name in self._models.names else {}
        versions = {one.version: known.get(one.version) or self._make(name, one) for one in described}
        if known.keys() - versions.keys():
            self._models.remove(name)
        for index, one in enumerate(described):
            self._models.add(versions[one.version].model, default=index == 0)
        self._versions[name] = versions
        self.scale(name, described)

    def scale(self, name: str, described: Sequence[TorchServeVersion]) -> None:
        """Set how many batches run at a time to the current number of workers."""
        for one in described:
            served = self._versions[name].get(one.version)
            if served and served.queue.concurrency != (batches := one.workers * served.slots):
                served.queue.concurrency = batches

    def refuse_all_waiting(self) -> None:
        """Fail all requests that wait for a worker: there will be none."""
        for name in self._versions:
            self.refuse_waiting(name)

    def refuse_waiting(self, name: str) -> None:
        """Fail the requests of one model that wait for a worker."""
        _refuse_waiting(name, self._versions.get(name, {}))

    async def drained(self, name: str) -> None:
        """Return when no request of the model is queued or in flight."""
        versions = self._versions.pop(name, {})
        _refuse_waiting(name, versions)
        for served in versions.values():
            await served.model.drained()

    def _make(self, name: str, version: TorchServeVersion) -> _ServedVersion:
        limits = self._registered.get(file_name(version.archive)) or self._requirements.limits(
            name, version.version, version.archive
        )
        log.info("model %s, version %s: %s", name, version.version, _describe(limits, stateful=bool(version.sequences)))
        on_response = functools.partial(self._deaths.reset, name, version.version)
        transport = self._client.transport(name, version, on_response)
        metrics = self._metrics.of_model(name)
        envelope = self._requirements.envelope
        stateful = version.sequences is not None
        model = HandlerModel(
            name, version.version, transport,
            limits=limits, metrics=metrics, workers=version.workers, envelope=envelope, stateful=stateful,
            merging=not stateful,  # with sequences, TorchServe forms the batches; a frame is one request to it
        )  # fmt: skip
        if version.sequences is None:
            return _ServedVersion(model, model.queue, transport, model.slots)
        headers = sequence_headers(self._requirements.properties)
        sequences = StatefulModel([model], version.sequences, headers, timeout_s=limits.timeout_s, marks=True)
        return _ServedVersion(sequences, model.queue, transport, version.batch_size)


def _refuse_waiting(name: str, versions: Mapping[str, _ServedVersion]) -> None:
    for served in versions.values():
        if not served.queue.concurrency:
            served.transport.give_up()
        served.queue.refuse(NotReady(f"Model {name} has no worker any more."))


def _describe(limits: BatchLimits, *, stateful: bool) -> str:
    if stateful:
        return "TorchServe makes batches of requests of several sequences, as its handler keeps state between them"
    if limits.continuous:
        return f"requests join and leave a running batch of up to {limits.max_batch_size} (continuousBatching)"
    if limits.max_batch_size == 1:
        return (
            "requests are not merged, as batchSize is 1; without it, or with a batcher in the service's spec, "
            "those that wait go to the model together"
        )
    together = f"requests that wait go to the model together, up to {limits.max_batch_size} instances"
    if limits.merges_rows:
        return together
    return f"{together}; those without instances go one at a time, as no batchSize is set"
