"""Which archives a ``config.properties`` requests, by the rules of TorchServe 0.12. Pure.

TorchServe loads the models of ``model_snapshot``, else those of ``load_models``. Where neither is set, the archives
that ``models`` names are loaded, else all there are. Beside the other two, ``models`` holds parameters only.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from model_archive.errors import InvalidConfiguration

CONFIG = "config/config.properties"
OF_STORES = ("model_store", "load_models", "model_snapshot")
"""Settings that a folder with one model does not have: its config.properties lies beside its handler."""
STORES = ("model-store", "mar-store")
"""Folders that are taken for the model store where the configured one does not exist."""
_SNAPSHOT, _LOAD_MODELS, _MODELS = "model_snapshot", "load_models", "models"
_SHOWN = 20
NO_WORKFLOWS = "workflows are not served; name the .mar archives of its models, and call them from a transformer"

Table = dict[str, dict[str, dict[str, Any]]]
"""Model → version → parameters."""


class ModelEntry(NamedTuple):
    model: str
    version: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Reference:
    """An archive that the configuration requests, and the setting that names it."""

    archive: str
    """A file name in the model store, or a URL."""
    setting: str
    model: str = ""
    """The name that clients use; empty for the one in the manifest."""
    version: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether it is a URL: TorchServe downloads such an archive."""
        return "://" in self.archive

    @property
    def is_workflow(self) -> bool:
        """Whether it is a workflow, which calls several models. The models beside it are served, a workflow is not."""
        return self.archive.lower().endswith(".war")

    @property
    def named_by(self) -> str:
        return f"{self.setting}, model {self.model}, version {self.version}" if self.version else self.setting


def parse_table(setting: str, text: str) -> dict[str, Any]:
    """Return the JSON object of ``model_snapshot`` or ``models``; raise InvalidConfiguration."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - _SHOWN) : error.pos + _SHOWN]
        raise _invalid(
            f"{setting} is not valid JSON ({error.msg} near {near!r}); "
            "correct it, and end each line of a long value but the last with a backslash"
        ) from None
    except RecursionError:
        raise _invalid(f"{setting} is nested too deep; correct it") from None
    except ValueError as error:
        raise _invalid(f"{setting} is not valid JSON ({error}); correct it") from None
    if not isinstance(document, dict):
        raise _invalid(f"{setting} is not a JSON object; correct it")
    return document


def snapshot_models(snapshot: Mapping[str, Any]) -> Table:
    """Return the models of a snapshot, at least one; raise InvalidConfiguration."""
    models = snapshot.get("models")
    if not isinstance(models, dict) or not models:
        raise _invalid(f'{_SNAPSHOT} names no model; write {{"models": {{NAME: {{VERSION: {{"marName": …}}}}}}}}')
    return models


def entries(setting: str, table: Mapping[str, Any]) -> list[ModelEntry]:
    """Return every version; raise InvalidConfiguration. Those of a snapshot have to name their archives."""
    found = []
    for model, versions in table.items():
        _check_object(versions, f"model {model} in {setting}")
        for version, parameters in versions.items():
            where = f"model {model}, version {version}"
            _check_object(parameters, f"{where} in {setting}")
            archive = parameters.get("marName", "")
            if not isinstance(archive, str) or (setting == _SNAPSHOT and not archive):
                raise _invalid(f'{setting} has no "marName" for {where}; add it')
            found.append(ModelEntry(model, version, parameters))
    return found


def requested_archives(settings: Mapping[str, str]) -> tuple[Reference, ...] | None:
    """Return the archives to load, or None for all that the model store holds; raise InvalidConfiguration."""
    models = entries(_MODELS, parse_table(_MODELS, settings.get(_MODELS, "").strip() or "{}"))
    if text := settings.get(_SNAPSHOT, "").strip():
        found = entries(_SNAPSHOT, snapshot_models(parse_table(_SNAPSHOT, text)))
        return tuple(dict.fromkeys(_reference(_SNAPSHOT, entry) for entry in found))
    if text := settings.get(_LOAD_MODELS, "").strip():
        return load_models(text)
    return named_in_models(models)


def load_models(text: str) -> tuple[Reference, ...] | None:
    """Return what a list of ``ARCHIVE``, ``MODEL=ARCHIVE`` and URLs names; None for ``all``.

    Raise InvalidConfiguration for workflows alone.
    """
    if text.strip().lower() == "all":
        return None
    references = []
    for item in filter(None, map(str.strip, text.split(","))):
        model, _, archive = item.partition("=") if "=" in item else ("", "", item)
        references.append(Reference(file_name(archive.strip()), _LOAD_MODELS, model.strip()))
    if references and all(one.is_workflow for one in references):
        raise _invalid(f"{_LOAD_MODELS} names only {references[0].archive}; {NO_WORKFLOWS}")
    return tuple(references)


def named_in_models(listed: Sequence[ModelEntry]) -> tuple[Reference, ...] | None:
    """Return the archives that ``models`` names, for a configuration without the other settings; None if there is none.

    Raise InvalidConfiguration where only some have an archive: nothing says which archives the others are for.
    """
    named = [entry for entry in listed if entry.parameters.get("marName")]
    for entry in listed:
        if named and entry not in named:
            raise _invalid(
                f'{_MODELS} has no "marName" for model {entry.model}, version {entry.version}; add it, as others have '
                f"one, or list the archives in {_LOAD_MODELS}"
            )
    return tuple(_reference(_MODELS, entry) for entry in named) or None


def select(references: Sequence[Reference], there: Container[str]) -> tuple[list[Reference], list[Reference]]:
    """Return the references to serve and those to leave out: workflows, and archives that are not ``there``.

    A snapshot is served whole or not at all, and where none of the archives is there only workflows are left out: then
    loading fails, with the name of an archive.
    """
    models = [one for one in references if not one.is_workflow]
    served = [one for one in models if one.is_remote or one.archive in there or one.setting == _SNAPSHOT] or models
    return served, [one for one in references if one not in served]


def file_name(archive: str) -> str:
    """Return the last part of a path: TorchServe looks for that in its store. A URL stays as it is."""
    return archive if "://" in archive else archive.rpartition("/")[2]


def _reference(setting: str, entry: ModelEntry) -> Reference:
    return Reference(file_name(entry.parameters["marName"]), setting, entry.model, entry.version)


def _check_object(value: object, what: str) -> None:
    if not isinstance(value, dict):
        raise _invalid(f"{what} is not a JSON object; correct it")


def _invalid(what: str) -> InvalidConfiguration:
    return InvalidConfiguration(f"{CONFIG}: {what}")
