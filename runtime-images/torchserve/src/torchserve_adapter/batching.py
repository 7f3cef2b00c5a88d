"""The adapter forms the batches: its queue gets what the user asked for, TorchServe gets what makes it not wait. Pure.

A running batch (`continuousBatching`) is TorchServe's to form: it gets as many requests at a time as that has room for.

TorchServe takes the parameters of a version from `model_snapshot` alone where there is one; else from the YAML in the
archive, and what that does not say from `models`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from data_plane.batching.limits import BatchLimits
from model_archive.configuration import Table, file_name
from torchserve_compat.store.archives import Archive
from torchserve_compat.store.models import entries, parse_table, snapshot_models
from torchserve_compat.store.properties import Draft
from torchserve_compat.store.settings import BatchOptions, batch_limits, envelope, stated_batch_size, whole
from torchserve_compat.store.versions import requested_versions

# Requests whose bodies make more than this together are not merged: they cost by the byte, and Java copies them often.
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
    """What was asked for on batches: by flags, in config.properties, and in the archives' YAML (by file name).

    `handlers` are those that the archives' manifests name, by file name as well.
    """

    options: BatchOptions
    properties: Mapping[str, str]  # as the user wrote them
    archives: Mapping[str, Settings]
    handlers: Mapping[str, str] = field(default_factory=dict)

    @property
    def envelope(self) -> str:
        """What stands between requests and handlers."""
        return envelope(self.properties)

    def limits(self, model: str, version: str, archive: str) -> BatchLimits:
        """For one version of a model, as it was asked for; raises ConfigurationError."""
        parameters = self._parameters(model, version, archive)
        return batch_limits(self.options, parameters, self.properties, self.handlers.get(archive, ""))

    def stated_batch_size(self, model: str, version: str, archive: str) -> int:
        """What the version's handler is told; TorchServe, which gets batches of one, would say 1."""
        return stated_batch_size(self.options, self._parameters(model, version, archive))

    def keeps_state(self, archive: str) -> bool:
        """Whether the archive's handler does, between the requests of a sequence."""
        return self.archives.get(file_name(archive), {}).get("sequenceBatching") is True

    def registered(self, batch_size: int, *, merges_rows: bool, continuous: bool) -> BatchLimits:
        """For one that was registered while TorchServe ran."""
        limits = batch_limits(
            self.options, {"batchSize": batch_size, "continuousBatching": continuous}, self.properties
        )
        return replace(limits, merges_rows=merges_rows or self.options.max_batch_size is not None)

    def unsized(self, yaml: Settings, handler: str) -> BatchLimits:
        """For one that is registered without a batch size, as far as its archive goes."""
        return batch_limits(BatchOptions(), _usable(yaml), {}, handler)

    def check(self) -> None:
        """Raises ConfigurationError for what cannot be obeyed."""
        for setting in ("model_snapshot", "models"):
            for name, version, parameters in entries(setting, _table(setting, self.properties)):
                self.limits(name, version, parameters.get("marName", ""))

    def _parameters(self, model: str, version: str, archive: str) -> Settings:
        yaml = _usable(self.archives.get(archive, {}))
        if self.properties.get("model_snapshot"):
            versions = _table("model_snapshot", self.properties).get(model, {})
            # TorchServe goes by the archive's version, whatever the snapshot calls it.
            lone = next(iter(versions.values())) if len(versions) == 1 else {}
            return {**yaml, **versions.get(version, lone)}
        return {**_table("models", self.properties).get(model, {}).get(version, {}), **yaml}


def form_batches_here(draft: Draft, archives: Mapping[str, Archive], requirements: BatchRequirements) -> None:
    """TorchServe gets batchSize 1 for every version in the configuration, but for those with a running batch, and those
    that keep state: of their sequences it makes the batches itself."""
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
    """What TorchServe gets for a version, and why."""
    if limits.continuous:
        return {"batchSize": limits.max_batch_size, "maxBatchDelay": 0}, f"maxBatchDelay 0: {_RUNNING}"
    return {"batchSize": 1}, f"batchSize 1: {_WHY}"


def _as_snapshot(draft: Draft, archives: Mapping[str, Archive], requirements: BatchRequirements) -> dict[str, Any]:
    """The same models, as the one form of configuration that an archive's YAML does not win over."""
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
    """What TorchServe takes from an archive's YAML, and leaves where it makes no sense."""
    taken = {name: yaml[name] for name in _FROM_YAML if type(yaml.get(name)) is int and yaml[name] > 0}
    taken |= {name: True for name in _BATCHINGS if yaml.get(name) is True}
    if taken.get("maxWorkers", 0) < taken.get("minWorkers", 1):
        taken = {name: value for name, value in taken.items() if name not in ("minWorkers", "maxWorkers")}
    return taken


def _table(setting: str, properties: Mapping[str, str]) -> Table:
    document = parse_table(setting, properties.get(setting) or "{}")
    return snapshot_models(document) if document and setting == "model_snapshot" else document
