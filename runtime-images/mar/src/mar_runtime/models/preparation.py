"""Prepares an archive for its workers: unpacked, with a plan, and with its requirements installed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from data_plane.model_server.errors import ConfigurationError, ModelFailed
from mar_runtime.archives.unpack import UnpackedArchive, unpack
from mar_runtime.configuration.devices import choose
from mar_runtime.configuration.plan import ArchivePlan, ArchiveRequest, archive_plan
from mar_runtime.configuration.settings import RuntimeSettings
from mar_runtime.engines.loading import needs_package
from torchserve_compat.store import notices
from torchserve_compat.store.known_settings import Runtime
from torchserve_compat.store.settings import no_settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedArchive:
    """An unpacked archive with its plan."""

    request: ArchiveRequest
    folder: Path
    plan: ArchivePlan
    gpus: tuple[int, ...] | None  # that its workers use in turn, () for the CPU; None for any
    packages: Path | None  # folder with the requirements that the image lacks

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.request.name

    @property
    def workers(self) -> int:
        """Return the number of workers if memory suffices."""
        return self.plan.policy.workers + self.plan.policy.more_workers


async def prepare(request: ArchiveRequest, settings: RuntimeSettings, models: int) -> PreparedArchive:
    """Unpack an archive, plan how it is served and install its requirements; raises ModelFailed.

    `models`: how many models share the processors and GPUs.
    """
    if find_spec("torch") is None:
        raise ModelFailed(f"{request.version.archive}: {needs_package('an archive', 'torch')}.")
    folder = _folder(settings.work_dir, request)
    unpacked = await asyncio.to_thread(unpack, request.path, folder / "archive", request.name)
    yaml_config = _read_yaml(unpacked, request)
    where = request.place_of_settings(unpacked.manifest)
    for notice in notices.of_archive(Runtime.MAR, where, yaml_config):
        log.warning("%s", notice)
    gpus = choose(where, yaml_config, settings.gpus)
    share = (settings.gpus if gpus is None else len(gpus) or settings.processors) // models
    plan = archive_plan(
        request,
        unpacked.manifest,
        yaml_config,
        properties=settings.properties,
        options=settings.options,
        devices=share,
    )
    packages = None
    if plan.requirements:
        file = unpacked.folder / plan.requirements
        packages = await settings.installer.install(file, folder, model=request.name)
    return PreparedArchive(request, unpacked.folder, plan, gpus, packages)


def _folder(work_dir: Path, request: ArchiveRequest) -> Path:
    """Return the model's own folder; its name is quoted, because a model's name may contain any character."""
    version = request.version
    return work_dir / "models" / f"{quote(version.name, safe='')}@{quote(version.version, safe='')}"


def _read_yaml(unpacked: UnpackedArchive, request: ArchiveRequest) -> dict[str, Any]:
    """Return the archive's own settings; raises ModelFailed, or ConfigurationError for a file of something else."""
    archive, name = request.version.archive, unpacked.manifest.config_file
    if not name:
        return {}
    try:
        document = yaml.safe_load((unpacked.folder / name).read_bytes())
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: for example, an invalid date
        if request.is_folder:
            raise ModelFailed(f"{name} cannot be read: {error}. Correct it.") from error
        raise ModelFailed(f"{archive}: its {name} cannot be read: {error}. Correct it and pack it again.") from error
    if not isinstance(document, dict | None):
        if request.is_folder:
            raise ConfigurationError(f"{name} has no settings; write NAME: VALUE in each line, or remove the file.")
        raise no_settings(archive, name)
    return document or {}
