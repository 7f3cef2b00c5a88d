"""Plans how each model is served. Pure.

Requests come from the model directory. The manifest and the YAML of an unpacked archive complete them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_plane.batching.limits import BatchLimits
from data_plane.batching.sequences import SequenceLimits
from data_plane.model_server.errors import ConfigurationError
from mar_runtime.configuration.settings import ServingOptions
from mar_runtime.pool.worker_pool import PoolPolicy
from model_archive.archive import HANDLER
from model_archive.formats import is_bare_model
from model_archive.manifest import Manifest
from torchserve_compat.store.settings import (
    batch_limits,
    envelope,
    installs_requirements,
    sequence_limits,
    stated_batch_size,
    usable,
    whole,
)
from torchserve_compat.store.versions import ModelVersion

# For a model without a configured number. On a large machine without limits, more workers would only use memory.
_MOST_WORKERS = 4
# TorchServe's, for starting a model and for a response.
_DEFAULT_TIMEOUT_S = 120


@dataclass(frozen=True)
class ArchiveRequest:
    """One version of a model in an archive that is not unpacked yet."""

    version: ModelVersion
    path: Path

    @property
    def is_folder(self) -> bool:
        """Return whether it is a folder with a handler, which is served as it is."""
        return self.version.archive == HANDLER

    def place_of_settings(self, manifest: Manifest) -> str:
        """Return where the model's settings are, as messages say it: their file in a folder, else the archive."""
        return manifest.config_file if self.is_folder and manifest.config_file else self.version.archive

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.version.name


@dataclass(frozen=True)
class FileRequest:
    """A model file without an archive."""

    name: str
    path: Path


ModelRequest = ArchiveRequest | FileRequest


@dataclass(frozen=True)
class ArchivePlan:
    """How one archive's handler is served."""

    handler: str
    envelope: str
    requirements: str | None  # file in the archive that lists the packages to install
    limits: BatchLimits
    stated_batch_size: int  # the batch size in the handler's context
    policy: PoolPolicy
    installs: bool = False  # a requirements file, if there is one
    sequences: SequenceLimits | None = None  # for a handler that keeps state between requests


def archive_plan(
    request: ArchiveRequest,
    manifest: Manifest,
    yaml_config: Mapping[str, Any],
    *,
    properties: Mapping[str, str],
    options: ServingOptions,
    devices: int,
) -> ArchivePlan:
    """Plan how an archive is served; raises ConfigurationError.

    As in TorchServe, a model_snapshot overrides the archive's YAML, which overrides `models`. A model without a number
    of workers has one for each of its `devices`, its share of the processors or GPUs. The envelope in a manifest is
    ignored, as in TorchServe 0.12.
    """
    own = request.version.parameters
    of_yaml = usable(yaml_config)
    parameters = {**of_yaml, **own} if properties.get("model_snapshot", "").strip() else {**own, **of_yaml}
    limits = batch_limits(options.batching, parameters, properties, manifest.handler)
    batch_size = stated_batch_size(options.batching, parameters)
    workers = whole(parameters, "minWorkers") or whole(properties, "default_workers_per_model")
    most_workers = max(workers or 1, whole(parameters, "maxWorkers") or 0)
    sequences = sequence_limits(request.place_of_settings(manifest), yaml_config, batch_size, most_workers)
    installs = installs_requirements(properties)
    may_multiply = not workers and not sequences
    return ArchivePlan(
        handler=manifest.handler,
        envelope=envelope(properties),
        requirements=manifest.requirements_file if installs else None,
        limits=limits,
        stated_batch_size=batch_size,
        policy=PoolPolicy(
            workers=workers or 1,
            more_workers=max(1, min(devices, _MOST_WORKERS)) - 1 if may_multiply else 0,
            response_timeout_s=_seconds(parameters, "responseTimeout", properties, "default_response_timeout"),
            startup_timeout_s=_seconds(parameters, "startupTimeout", properties, "default_startup_timeout"),
            # The state of its sequences would go with a worker that is replaced.
            max_requests=0 if sequences else options.max_requests,
            max_memory_mib=0 if sequences else options.max_memory_mib,
        ),
        installs=installs,
        sequences=sequences,
    )


def _seconds(parameters: Mapping[str, Any], name: str, properties: Mapping[str, str], server_wide: str) -> int:
    """Return a model's timeout, else the server's, else TorchServe's default."""
    return whole(parameters, name) or whole(properties, server_wide) or _DEFAULT_TIMEOUT_S


def bare_files(files: Iterable[Path], service_name: str | None) -> tuple[FileRequest, ...]:
    """Return the model files of a directory without configuration; a single one has the service's name."""
    models = sorted(filter(is_bare_model, files))
    if len(models) == 1 and service_name:
        return (FileRequest(service_name, models[0]),)
    names: dict[str, Path] = {}
    for path in models:
        if path.stem in names:
            raise ConfigurationError(f"{names[path.stem].name} and {path.name} would have the same name; rename one.")
        names[path.stem] = path
    return tuple(FileRequest(name, path) for name, path in names.items())
