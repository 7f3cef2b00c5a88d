"""The versions that TorchServe serves, each as a model behind a queue of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from torchserve_adapter.batching import Wishes
from torchserve_adapter.client import TorchServeClient, Version
from transformer_sdk.batching.limits import BatchLimits
from transformer_sdk.batching.metrics import BatchMetricsRegistry
from transformer_sdk.handler.model import HandlerModel
from transformer_sdk.model import Models

log = logging.getLogger(__name__)


class ServedVersions:
    """Fills `models`; as many batches are under way as a version has workers."""

    def __init__(self, models: Models, client: TorchServeClient, wishes: Wishes, metrics: BatchMetricsRegistry) -> None:
        self._models = models
        self._client = client
        self._wishes = wishes
        self._metrics = metrics
        self._versions: dict[str, dict[str, HandlerModel]] = {}

    def has(self, name: str, version: str) -> bool:
        """Whether this version is served."""
        return name in self._models.names and version in self._models.versions(name)

    def update(self, name: str, described: Sequence[Version], *, configured: bool) -> None:
        """A model's versions are these, the first one its default. `configured`: as config.properties has them."""
        known = self._versions.get(name, {}) if name in self._models.names else {}
        versions = {one.version: known.get(one.version) or self._make(name, one, configured) for one in described}
        if known.keys() - versions.keys():
            self._models.remove(name)
        for index, one in enumerate(described):
            self._models.add(versions[one.version], default=index == 0)
            workers = max(1, one.workers)
            if versions[one.version].queue.concurrency != workers:
                versions[one.version].queue.concurrency = workers
        self._versions[name] = versions

    async def drained(self, name: str) -> None:
        """Returns when no request waits for the model or is under way."""
        for version in self._versions.pop(name, {}).values():
            await version.queue.drained()

    def _make(self, name: str, version: Version, configured: bool) -> HandlerModel:
        if configured:
            limits = self._wishes.limits(name, version.version, version.archive)
        else:
            limits = self._wishes.registered(version.batch_size)
        log.info("model %s, version %s: %s", name, version.version, _said(limits))
        transport = self._client.transport(name, version)
        return HandlerModel(
            name, version.version, transport, limits, self._metrics.of_model(name), max(1, version.workers)
        )


def _said(limits: BatchLimits) -> str:
    if limits.max_batch_size == 1:
        return (
            "requests are not merged, as batchSize is 1; without it, or with a batcher in the service's spec, "
            "those that wait go to the model together"
        )
    return f"requests that wait go to the model together, up to {limits.max_batch_size} instances"
