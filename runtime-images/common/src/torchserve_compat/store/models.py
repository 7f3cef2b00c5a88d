"""Which models a configuration requests, and whether their archives can be served. Pure.

`model_archive.configuration` has the rules; what it refuses ends the server with a ConfigurationError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath

from data_plane.model_server.errors import ConfigurationError, ModelFailed
from model_archive import configuration
from model_archive.configuration import Reference, Table
from model_archive.errors import InvalidConfiguration
from torchserve_compat.store.archives import Archive


@dataclass(frozen=True)
class RequestedModel:
    """A model as clients name it, and the file names of its archives."""

    name: str
    archive: str


@contextmanager
def _as_configuration_error() -> Iterator[None]:
    try:
        yield
    except InvalidConfiguration as error:
        raise ConfigurationError(str(error)) from error


parse_table = _as_configuration_error()(configuration.parse_table)
snapshot_models = _as_configuration_error()(configuration.snapshot_models)
entries = _as_configuration_error()(configuration.entries)
_requested = _as_configuration_error()(configuration.requested_archives)
_load_models = _as_configuration_error()(configuration.load_models)
_named_in_models = _as_configuration_error()(configuration.named_in_models)


def named_in_models(table: Table) -> str:
    """Return the archives that `models` names, as a value of `load_models`; "all" where it names none."""
    named = _named_in_models(entries("models", table)) or ()
    return ",".join(f"{reference.model}={reference.archive}" for reference in named) or "all"


def requested_models(
    properties: Mapping[str, str], archives: Mapping[str, Archive], store: str
) -> tuple[RequestedModel, ...]:
    """Return the models that the effective configuration loads, each of whose archives can be served.

    Raise ConfigurationError, or ModelFailed for an archive that must not be unpacked.
    """
    references = _or_all(_requested(properties), archives)
    if not references:
        raise ConfigurationError(f"There is no archive in the model store {store}: put a .mar file there.")
    for reference in references:
        _check_archive(reference, archives, store)
    files: dict[str, list[str]] = {}  # a model may have several versions
    for reference in references:
        files.setdefault(reference.model or archives[reference.archive].model_name, []).append(reference.archive)
    return tuple(RequestedModel(name, ", ".join(of_model)) for name, of_model in files.items())


@dataclass(frozen=True)
class LoadSelection:
    """What of `load_models` is there, and why each other model is not served: it continues a sentence on the model."""

    load_models: str
    missing: Mapping[str, str] = field(default_factory=dict)


def select(value: str, archives: Mapping[str, Archive], store: str) -> LoadSelection:
    """Leave out the archives of `load_models` that are not in the store, as TorchServe does, unless none is."""
    served, left_out = configuration.select(load_models(value, archives), archives)
    if not left_out:
        return LoadSelection(value)
    missing = {
        reference.model or PurePath(reference.archive).stem: (
            f"is not served: {configuration.NO_WORKFLOWS}"
            if reference.is_workflow
            else f"is not served: {reference.archive}, which load_models names, is not in the model store {store}; "
            "put it there"
        )
        for reference in left_out
    }
    named = (f"{reference.model}={reference.archive}" if reference.model else reference.archive for reference in served)
    return LoadSelection(",".join(named), missing)


def load_models(value: str, archives: Mapping[str, Archive]) -> Sequence[Reference]:
    """Return what `load_models` names; of "all", every archive in the store."""
    return _or_all(_load_models(value), archives)


def _or_all(references: Sequence[Reference] | None, archives: Mapping[str, Archive]) -> Sequence[Reference]:
    return [Reference(file, "load_models") for file in archives] if references is None else references


def _check_archive(reference: Reference, archives: Mapping[str, Archive], store: str) -> None:
    model = f"model {reference.model}: " if reference.model else ""
    if reference.is_remote and reference.model:
        return  # TorchServe downloads it
    if not (archive := archives.get(reference.archive)):
        there = ", ".join(archives) or "nothing"
        raise ConfigurationError(
            f"{model}{reference.archive} is not in the model store {store}, which holds {there}. "
            "Put the archive there or correct its name in config.properties."
        )
    if archive.problem:
        raise (ModelFailed if archive.is_unsafe else ConfigurationError)(f"{model}{archive.problem}")
