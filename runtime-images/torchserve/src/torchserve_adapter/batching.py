"""Batch sizes: the adapter forms the batches with the requested size, and TorchServe gets batches of one. Pure.

With `continuousBatching`, TorchServe forms the running batch: the adapter sends as many requests as it has slots.

TorchServe takes the parameters of a version only from `model_snapshot`, if there is one; else from the archive's YAML,
and from `models` for what the YAML does not set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from data_plane.batching.limits import BatchLimits
from model_archive.configuration import Table, file_name
from torchserve_compat.store.archives import Archive
from torchserve_compat.store.models import entries, parse_table, snapshot_models
from torchserve_compat.store.properties import Draft
from torchserve_compat.store.settings import (
    BatchOptions,
    batch_limits,
    envelope,
    parsed,
    stated_batch_size,
    usable,
    whole,
)
from torchserve_compat.store.versions import requested_versions

# Requests with more bytes than this together are not merged: Java copies bodies several times.
FRAME_BYTES = 8 * 1024 * 1024

_WHY = "the adapter forms the batches, each one request to TorchServe, which need not wait for more"
_RUNNING = "no request waits for others: they join the running batch"
_FROM_YAML = (
    "minWorkers", "maxWorkers", "batchSize", "maxBatchDelay", "responseTimeout", "startupTimeout", "jobQueueSize",
    "clientTimeoutInMills",
)  # fmt: skip

# TorchServe reads these in the archive, whatever the configuration says.
_BATCHINGS = ("continuousBatching", "sequenceBatching")

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class BatchRequirements:
    """The requested batch settings: from flags, config.properties, and the archives' YAML (by file name).

    `handlers`: the handlers in the archives' manifests, by file name.
    """

    options: BatchOptions
    properties: Mapping[str, str]  # as the user wrote them
    archives: Mapping[str, Settings]
    handlers: Mapping[str, str] = field(default_factory=dict)

    @property
    def envelope(self) -> str:
        """Return the service envelope."""
        return envelope(self.properties)

    def limits(self, model: str, version: str, archive: str) -> BatchLimits:
        """Return the requested limits of one version of a model; raises ConfigurationError."""
        parameters = self._parameters(model, version, archive)
        return batch_limits(self.options, parameters, self.properties, self.handlers.get(archive, ""))

    def stated_batch_size(self, model: str, version: str, archive: str) -> int:
        """Return the batch size for the handler's context, where TorchServe, which gets batches of one, would set 1."""
        return stated_batch_size(self.options, self._parameters(model, version, archive))

    def keeps_state(self, archive: str) -> bool:
        """Return whether the archive's handler keeps state between the requests of a sequence."""
        return self.archives.get(file_name(archive), {}).get("sequenceBatching") is True

    def of_registration(self, batch_size: Any, yaml: Settings, handler: str) -> tuple[BatchLimits, int]:
        """Return the limits and the stated batch size of a version that is registered at run time.

        `batch_size` is that of the registration, which overrides the archive's own. As in TorchServe, one that is no
        whole number of 1 or more counts as missing. Raises ConfigurationError.
        """
        parameters = {**_usable(yaml), **usable({"batchSize": parsed(batch_size)})}
        limits = batch_limits(self.options, parameters, self.properties, handler)
        return limits, stated_batch_size(self.options, parameters)

    def check(self) -> None:
        """Raise ConfigurationError for settings that are invalid or not supported."""
        envelope(self.properties)
        for setting in ("model_snapshot", "models"):
            for name, version, parameters in entries(setting, _table(setting, self.properties)):
                self.limits(name, version, parameters.get("marName", ""))

    def _parameters(self, model: str, version: str, archive: str) -> Settings:
        yaml = _usable(self.archives.get(archive, {}))
        if self.properties.get("model_snapshot"):
            versions = _table("model_snapshot", self.properties).get(model, {})
            # TorchServe uses the archive's version, not the snapshot's.
            lone = next(iter(versions.values())) if len(versions) == 1 else {}
            return {**yaml, **versions.get(version, lone)}
        return {**_table("models", self.properties).get(model, {}).get(version, {}), **yaml}


def set_batch_sizes(draft: Draft, archives: Mapping[str, Archive], requirements: BatchRequirements) -> None:
    """Set batchSize 1 for every version in TorchServe's configuration.

    Exceptions are versions with a running batch, and those that keep state: TorchServe forms their batches.
    """
    usable = [_usable(yaml) for file, yaml in requirements.archives.items() if not requirements.keeps_state(file)]
    yaml_batches = any(yaml.get("batchSize", 1) > 1 or yaml.get("continuousBatching") for yaml in usable)
    if yaml_batches and "model_snapshot" not in draft.properties:
        draft.set("model_snapshot", json.dumps(_as_snapshot(draft, archives, requirements)), f"batchSize 1: {_WHY}")
        return
    for setting in ("model_snapshot", "models"):
        document = parse_table(setting, draft.get(setting) or "{}")
        table = document.get("models", {}) if setting == "model_snapshot" else document
        whys = set()
        for name, version, parameters in entries(setting, table):
            archive = parameters.get("marName", "")
            if requirements.keeps_state(archive):
                continue
            formed, why = _formed(requirements.limits(name, version, archive))
            if {"batchSize": 1, **parameters} != {"batchSize": 1, **parameters, **formed}:
                parameters.update(formed)
                whys.add(why)
        if whys:
            draft.set(setting, json.dumps(document), "; ".join(sorted(whys)))


def _formed(limits: BatchLimits) -> tuple[dict[str, int], str]:
    """Return TorchServe's parameters for a version, and the reason."""
    if limits.continuous:
        return {"batchSize": limits.max_batch_size, "maxBatchDelay": 0}, f"maxBatchDelay 0: {_RUNNING}"
    return {"batchSize": 1}, f"batchSize 1: {_WHY}"


def _as_snapshot(draft: Draft, archives: Mapping[str, Archive], requirements: BatchRequirements) -> dict[str, Any]:
    """Return the same models as a snapshot, which an archive's YAML does not override."""
    models: Table = {}
    for one in requested_versions(draft.properties, archives, draft.get("model_store")):
        yaml = _usable(requirements.archives.get(one.archive, {}))
        workers = whole(draft.properties, "default_workers_per_model") or 1
        parameters = {"minWorkers": workers, "maxWorkers": workers, "maxBatchDelay": 100, **one.parameters, **yaml}
        parameters = {name: value for name, value in parameters.items() if name not in _BATCHINGS}
        parameters |= {"marName": one.archive, "defaultVersion": one.is_default}
        if not requirements.keeps_state(one.archive):
            parameters |= _formed(requirements.limits(one.name, one.version, one.archive))[0]
        models.setdefault(one.name, {})[one.version] = parameters
    return {"modelCount": len(models), "models": models}


def _usable(yaml: Settings) -> Settings:
    """Return the settings of an archive's YAML that TorchServe uses; it ignores invalid ones."""
    valid = usable(yaml)
    taken = {name: valid[name] for name in _FROM_YAML if valid.get(name)}
    taken |= {name: True for name in _BATCHINGS if yaml.get(name) is True}
    if taken.get("maxWorkers", 0) < taken.get("minWorkers", 1):
        taken = {name: value for name, value in taken.items() if name not in ("minWorkers", "maxWorkers")}
    return taken


def _table(setting: str, properties: Mapping[str, str]) -> Table:
    document = parse_table(setting, properties.get(setting) or "{}")
    return snapshot_models(document) if document and setting == "model_snapshot" else document
