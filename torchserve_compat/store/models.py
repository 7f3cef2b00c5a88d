"""Which models a configuration asks for. Pure.

TorchServe takes them from `model_snapshot` if there is one, else from `load_models`; `models` holds parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from data_plane.model_server.errors import ConfigurationError
from torchserve_compat.store.archives import Archive

Table = dict[str, dict[str, dict[str, Any]]]  # model → version → parameters


@dataclass(frozen=True)
class Model:
    """A model as clients name it, and the file names of its archives."""

    name: str
    archive: str


def parse_table(setting: str, text: str) -> dict[str, Any]:
    """The JSON of `model_snapshot` or `models`."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{setting} in config.properties is not valid JSON: {error.msg} at character {error.pos}: "
            f"{text[max(0, error.pos - 20) : error.pos + 20]!r}. "
            "Continue long values with a backslash at the line's end."
        ) from error
    if not isinstance(document, dict):
        raise ConfigurationError(f"{setting} in config.properties is not a JSON object: {text[:60]!r}.")
    return document


def snapshot_models(snapshot: Mapping[str, Any]) -> Table:
    """The models of a snapshot, at least one; raises ConfigurationError."""
    models = snapshot.get("models")
    if not isinstance(models, dict) or not models:
        raise ConfigurationError(
            'model_snapshot in config.properties names no model; write {"models": {NAME: {VERSION: {"marName": …}}}}.'
        )
    return models


def entries(setting: str, table: Table) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(model, version, parameters); a snapshot's are checked to name their archives, those of `models` need not."""
    for name, versions in table.items():
        if not isinstance(versions, dict):
            raise ConfigurationError(f"{setting} in config.properties: model {name} is not {{VERSION: {{…}}}}.")
        for version, parameters in versions.items():
            where = f"{setting} in config.properties: model {name}, version {version}"
            if not isinstance(parameters, dict):
                raise ConfigurationError(f"{where} is not {{PARAMETER: VALUE, …}}.")
            if setting == "model_snapshot" and not parameters.get("marName"):
                raise ConfigurationError(f'{where} has no "marName".')
            yield name, version, parameters


def named_in_models(table: Table) -> str:
    """As `load_models`, for a configuration without it: TorchServe would load nothing. "all" where no archive is named.

    Raises ConfigurationError where only some are: nothing says which archives the others are for.
    """
    listed = list(entries("models", table))
    named = [(name, parameters["marName"]) for name, _, parameters in listed if parameters.get("marName")]
    for name, version, parameters in listed:
        if named and not parameters.get("marName"):
            raise ConfigurationError(
                f'models in config.properties: model {name}, version {version} has no "marName"; '
                "write it, as others have one, or say by load_models which archives are loaded."
            )
    return ",".join(f"{name}={archive}" for name, archive in named) or "all"


def requested_models(properties: Mapping[str, str], archives: Mapping[str, Archive], store: str) -> tuple[Model, ...]:
    """The models that the effective configuration makes TorchServe load, each checked to be loadable."""
    if "model_snapshot" in properties:
        table = snapshot_models(parse_table("model_snapshot", properties["model_snapshot"]))
        named = [(name, parameters["marName"]) for name, _, parameters in entries("model_snapshot", table)]
    else:
        named = load_models(properties["load_models"], archives)
    if not named:
        raise ConfigurationError(f"There is no archive in the model store {store}: put a .mar file there.")
    named = [(name, file_name(archive)) for name, archive in named]
    for name, file in named:
        _check_archive(name, file, archives, store)
    files: dict[str, list[str]] = {}  # a model may have several versions
    for name, file in named:
        files.setdefault(name or archives[file].model_name, []).append(file)
    return tuple(Model(name, ", ".join(of_model)) for name, of_model in files.items())


@dataclass(frozen=True)
class Selection:
    """What of `load_models` is there, and why each other model is not served: it continues a sentence on the model."""

    load_models: str
    missing: Mapping[str, str] = field(default_factory=dict)


def select(value: str, archives: Mapping[str, Archive], store: str) -> Selection:
    """As TorchServe serves the archives that are there; with none of them nothing is left out, and loading fails."""
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    there, missing = [], {}
    for entry, (name, archive) in zip(entries, load_models(value, archives), strict=False):
        file = file_name(archive)
        if file in archives or "://" in file:
            there.append(entry)
        else:
            missing[name or PurePath(file).stem] = (
                f"is not served: {file}, which load_models names, is not in the model store {store}; put it there"
            )
    return Selection(",".join(there), missing) if there and missing else Selection(value)


def load_models(value: str, archives: Mapping[str, Archive]) -> list[tuple[str, str]]:
    """(name or "" for the manifest's, file) for each entry of `load_models`."""
    if value.strip().lower() == "all":
        return [("", file) for file in archives]
    named = [entry.strip().rpartition("=") for entry in value.split(",") if entry.strip()]
    return [(name.strip(), file.strip()) for name, _, file in named]


def file_name(archive: str) -> str:
    """TorchServe looks for the last part of a path in its store, whatever comes before."""
    return archive if "://" in archive else archive.rpartition("/")[2]


def _check_archive(name: str, file: str, archives: Mapping[str, Archive], store: str) -> None:
    wanted = f"model {name}: {file}" if name else file
    if "://" in file and name:
        return  # TorchServe fetches it
    if file not in archives:
        there = ", ".join(archives) or "nothing"
        raise ConfigurationError(
            f"{wanted} is not in the model store {store}, which holds {there}. "
            "Put the archive there or correct its name in config.properties."
        )
    if problem := archives[file].problem:
        raise ConfigurationError(f"{wanted} in {store} {problem}")
