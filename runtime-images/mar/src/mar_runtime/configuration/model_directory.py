"""Reads a model directory: its configuration, and its archives or model files.

It has TorchServe's layout, with config/config.properties and a model store; or it contains only archives, or only model
files; or it is one model with its handler, beside which its config.properties may lie.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from data_plane.model_server.errors import ConfigurationError
from mar_runtime.configuration.plan import ArchiveRequest, ModelRequest, bare_files
from model_archive.archive import HANDLER, is_source, is_unpacked
from model_archive.configuration import CONFIG, OF_STORES, STORES
from torchserve_compat.store import notices, properties, rules
from torchserve_compat.store.archives import Archive, read_archive, read_store
from torchserve_compat.store.known_settings import USUAL, Runtime
from torchserve_compat.store.models import LoadSelection, named_in_models, parse_table, select
from torchserve_compat.store.versions import newest, of_archive, requested_versions, without_effect

log = logging.getLogger(__name__)

_RULES = (rules.environment, rules.flags, rules.placeholders, rules.model_store, rules.sizes)
_RULES_OF_SOURCE = tuple(rule for rule in _RULES if rule is not rules.model_store)


@dataclass(frozen=True)
class ModelDirectory:
    """The models to serve, and their configuration."""

    models: Sequence[ModelRequest]
    properties: Mapping[str, str]
    missing: Mapping[str, str] = field(default_factory=dict)  # models that cannot be served, and why
    others: Sequence[ModelRequest] = ()  # that are served as soon as a client loads them

    @property
    def loadable(self) -> Sequence[ModelRequest]:
        """Return all models that a client can load."""
        return [*self.models, *self.others]

    @property
    def max_request_size(self) -> int:
        """Return the limit of a request's body, in bytes."""
        return rules.max_request_size(self.properties)


def read(inputs: rules.RuleInputs, service_name: str | None) -> ModelDirectory:
    """Read a model directory; raises ConfigurationError if it has no model, or an invalid configuration."""
    folder = inputs.model_dir
    if not folder.is_dir():
        raise ConfigurationError(
            f"{folder} is not a directory; give the folder with the models by the storageUri of the InferenceService, "
            "or by --model-dir if there is none."
        )
    settings = _configuration(inputs)
    models, missing, others = _archives(settings)
    if not models and is_source(folder):
        models = [_source(folder, settings, service_name)]
    if not models:
        models = bare_files((path for path in folder.iterdir() if path.is_file()), service_name)
    if not models:
        raise ConfigurationError(
            f"There is no model in {folder}: put config/config.properties and model-store/*.mar there, "
            "or a handler.py with its files, or a model.pt, model.pt2 or model.onnx."
        )
    return ModelDirectory(models, settings, missing, others)


def _configuration(inputs: rules.RuleInputs) -> Mapping[str, str]:
    folder = inputs.model_dir
    path = folder / CONFIG
    if path.is_file():
        draft = rules.effective(properties.parse(path.read_bytes(), str(path)), inputs, _RULES)
    elif any((folder / name).is_dir() for name in STORES):
        draft = rules.effective({}, inputs, _RULES)
    elif any(folder.glob("*.mar")):
        draft = rules.effective({"model_store": "."}, inputs, _RULES)
    elif is_source(folder):
        draft = rules.effective(_beside_source(folder / PurePath(CONFIG).name), inputs, _RULES_OF_SOURCE)
    else:
        draft = rules.effective({}, inputs, (rules.flags, rules.sizes))
    for change in draft.changes:
        log.info("config.properties: %s", change)
    for level, is_usual in ((logging.INFO, True), (logging.WARNING, False)):
        settings = {name: value for name, value in draft.properties.items() if (name in USUAL) is is_usual}
        for notice in notices.of_properties(Runtime.MAR, settings):
            log.log(level, "%s", notice)
    return draft.properties


def _beside_source(file: Path) -> Mapping[str, str]:
    """Return the settings of a file; without one, as the storage-initializer writes them for archives."""
    if not file.is_file():
        return {"install_py_dep_per_model": "true"}
    found = properties.parse(file.read_bytes(), str(file))
    return {name: value for name, value in found.items() if name not in OF_STORES}


def _source(folder: Path, settings: Mapping[str, str], service_name: str | None) -> ArchiveRequest:
    """Return the model that a folder is; its name is the service's, else its manifest's or the folder's."""
    found = read_archive(folder) if is_unpacked(folder) else Archive(HANDLER, folder.resolve().name)
    if found.problem:
        raise ConfigurationError(f"{found.problem}.")
    version = of_archive(settings, replace(found, model_name=service_name or found.model_name))
    return ArchiveRequest(replace(version, is_default=True), folder)


def _archives(
    settings: Mapping[str, str],
) -> tuple[Sequence[ModelRequest], Mapping[str, str], Sequence[ModelRequest]]:
    """Return the archives to serve, why each other model in `load_models` is not served, and the rest of the store."""
    if "model_store" not in settings:
        return [], {}, ()
    store = Path(settings["model_store"])
    wanted = {name: value for name, value in settings.items() if name != "model_snapshot" or value.strip()}
    if not wanted.get("load_models", "").strip():
        wanted["load_models"] = named_in_models(parse_table("models", wanted.get("models") or "{}"))
    archives = read_store(store)
    selection = LoadSelection("")
    if "model_snapshot" not in wanted:
        selection = select(wanted["load_models"], archives, str(store))
        wanted["load_models"] = selection.load_models
    for model, why in selection.missing.items():
        log.warning("model %s %s", model, why)
    versions = requested_versions(wanted, archives, str(store))
    for notice in without_effect(wanted, archives):
        log.warning("config.properties: %s", notice)
    requests = [ArchiveRequest(version, store / version.archive) for version in versions]
    named = {version.name for version in versions}
    others = (archive for name, archive in newest(archives).items() if name not in named)
    on_request = (ArchiveRequest(of_archive(settings, archive), store / archive.file) for archive in others)
    return requests, selection.missing, tuple(on_request)
