"""The model versions that a configuration requests, and their parameters. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from data_plane.model_server.errors import ConfigurationError
from model_archive.configuration import file_name
from torchserve_compat.store.archives import Archive
from torchserve_compat.store.models import entries, load_models, parse_table, requested_models, snapshot_models


@dataclass(frozen=True)
class ModelVersion:
    """One version of a model; `parameters` are the user's parameters for it."""

    name: str
    version: str
    archive: str  # file name in the store
    is_default: bool
    parameters: Mapping[str, Any] = field(default_factory=dict)


def requested_versions(
    properties: Mapping[str, str], archives: Mapping[str, Archive], store: str
) -> tuple[ModelVersion, ...]:
    """Return all versions to serve, each of which is in the store; raises ConfigurationError."""
    for model in requested_models(properties, archives, store):
        if "://" in model.archive:  # only TorchServe downloads archives
            raise ConfigurationError(f"Model {model.name}: download {model.archive} and put it into the store {store}.")
    return _found(properties, archives)


def newest(archives: Mapping[str, Archive]) -> Mapping[str, Archive]:
    """Return the archive that a client loads by the name of its model: of several, the one of the highest version."""
    usable = (archive for archive in archives.values() if not archive.problem)
    return {one.model_name: one for one in sorted(usable, key=lambda archive: numbers(archive.model_version))}


def of_archive(properties: Mapping[str, str], archive: Archive) -> ModelVersion:
    """Return the version of an archive that no setting names, with its parameters in `models`."""
    return _version(archive, archive.model_name, _parameters_of(properties))


def without_effect(properties: Mapping[str, str], archives: Mapping[str, Archive]) -> Iterator[str]:
    """Yield what to say of the parameters in `models` for each version that is neither served nor in the store."""
    if "model_snapshot" in properties:  # `models` is not read
        return
    known = {(one.name, one.version) for one in _found(properties, archives)}
    known |= {(one.model_name, one.model_version) for one in archives.values()}
    for name, version in _parameters_of(properties):
        if (name, version) not in known:
            others = ", ".join(other for model, other in sorted(known) if model == name)
            instead = f"its version is {others}" if others else "it has no model of this name"
            yield f"models: what it says of {name}, version {version}, has no effect: the store has none; {instead}"


def default_first(properties: Mapping[str, str], archives: Mapping[str, Archive]) -> str:
    """Return `load_models` with each model's default version before its others: TorchServe takes the first for it.

    Raises ConfigurationError for a version that is there twice.
    """
    found = sorted(_found(properties, archives), key=lambda version: not version.is_default)
    return ",".join(f"{version.name}={version.archive}" for version in found)


def _found(properties: Mapping[str, str], archives: Mapping[str, Archive]) -> tuple[ModelVersion, ...]:
    """Return the versions in their order, each model's default among them: what is declared, else as `_default_of`.

    Raises ConfigurationError for a version that is there twice.
    """
    if "model_snapshot" in properties:
        found, listed = tuple(_from_snapshot(properties, archives)), False
    else:
        found = tuple(_from_names(properties, archives))
        listed = properties.get("load_models", "all").strip().lower() != "all"
    by_model = _by_model(found).values()
    for versions in by_model:
        _check_distinct(versions)
    defaults = {id(_default_of(versions, listed=listed)) for versions in by_model}
    declared = {version.name for version in found if version.is_default}
    return tuple(
        version if version.name in declared else replace(version, is_default=id(version) in defaults)
        for version in found
    )


def _by_model(found: Iterable[ModelVersion]) -> Mapping[str, list[ModelVersion]]:
    by_model: dict[str, list[ModelVersion]] = {}
    for version in found:
        by_model.setdefault(version.name, []).append(version)
    return by_model


def _from_snapshot(properties: Mapping[str, str], archives: Mapping[str, Archive]) -> Iterator[ModelVersion]:
    """Yield the versions of a snapshot; as in TorchServe, the archive's version counts, not the snapshot's."""
    table = snapshot_models(parse_table("model_snapshot", properties["model_snapshot"]))
    for name, _, parameters in entries("model_snapshot", table):
        archive = archives[file_name(parameters["marName"])]
        yield ModelVersion(name, archive.model_version, archive.file, is_default(parameters), parameters)


def _from_names(properties: Mapping[str, str], archives: Mapping[str, Archive]) -> Iterator[ModelVersion]:
    parameters = _parameters_of(properties)
    for reference in load_models(properties.get("load_models", "all"), archives):
        archive = archives[reference.archive]
        yield _version(archive, reference.model or archive.model_name, parameters)


def _parameters_of(properties: Mapping[str, str]) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Return what `models` says, by model and version."""
    table = entries("models", parse_table("models", properties.get("models") or "{}"))
    return {(name, version): parameters for name, version, parameters in table}


def _version(archive: Archive, name: str, parameters_of: Mapping[tuple[str, str], Mapping[str, Any]]) -> ModelVersion:
    parameters = parameters_of.get((name, archive.model_version), {})
    return ModelVersion(name, archive.model_version, archive.file, is_default(parameters), parameters)


def is_default(parameters: Mapping[str, Any]) -> bool:
    """Return whether `defaultVersion` is true, also as a text."""
    return str(parameters.get("defaultVersion")).lower() == "true"


def _check_distinct(versions: list[ModelVersion]) -> None:
    seen: dict[str, str] = {}
    for version in versions:
        other = seen.get(version.version)
        if other == version.archive:
            raise ConfigurationError(f"Model {version.name} is asked for twice from {other}; name it once.")
        if other:
            raise ConfigurationError(
                f"Model {version.name}, version {version.version} is in two archives, {other} and {version.archive}; "
                "give one of them another --model-name or --version."
            )
        seen[version.version] = version.archive


def _default_of(versions: list[ModelVersion], *, listed: bool) -> ModelVersion:
    """Return the first where `load_models` lists them, as in TorchServe; else the highest: a folder has no order."""
    return versions[0] if listed else max(versions, key=lambda version: numbers(version.version))


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
