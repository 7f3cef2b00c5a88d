"""Reads a model directory: its configuration, and its archives or model files.

It has TorchServe's layout, with config/config.properties and a model store; or it contains only archives, or only model
files.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from data_plane.model_server.errors import ConfigurationError
from mar_runtime.configuration.plan import ArchiveRequest, ModelRequest, bare_files
from model_archive.configuration import CONFIG, STORES
from torchserve_compat.store import notices, properties, rules
from torchserve_compat.store.archives import read_store
from torchserve_compat.store.known_settings import Runtime
from torchserve_compat.store.models import LoadSelection, named_in_models, parse_table, select
from torchserve_compat.store.versions import newest, of_archive, requested_versions

log = logging.getLogger(__name__)

_RULES = (rules.environment, rules.flags, rules.placeholders, rules.model_store, rules.sizes)


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
        raise ConfigurationError(f"{folder} is not a directory; give the folder with the models by --model-dir.")
    settings = _configuration(inputs)
    models, missing, others = _archives(settings)
    if not models:
        models = bare_files((path for path in folder.iterdir() if path.is_file()), service_name)
    if not models:
        raise ConfigurationError(
            f"There is no model in {folder}: put config/config.properties and model-store/*.mar there, "
            "or a model.pt, model.pt2 or model.onnx."
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
    else:
        draft = rules.effective({}, inputs, (rules.flags, rules.sizes))
    for change in draft.changes:
        log.info("config.properties: %s", change)
    for notice in notices.of_properties(Runtime.MAR, draft.properties):
        log.warning("%s", notice)
    return draft.properties


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
    requests = [ArchiveRequest(version, store / version.archive) for version in versions]
    named = {version.name for version in versions}
    others = (archive for name, archive in newest(archives).items() if name not in named)
    on_request = (ArchiveRequest(of_archive(settings, archive), store / archive.file) for archive in others)
    return requests, selection.missing, tuple(on_request)
