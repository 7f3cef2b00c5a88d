"""Notices that a runtime logs at its start about settings without effect, and errors for refused ones. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data_plane.limits import MAX_NAMED_SETTINGS, MAX_NOTICES
from data_plane.model_server.errors import ConfigurationError
from torchserve_compat.store.known_settings import ARCHIVE, PARAMETERS, PROPERTIES, Effect, Runtime, Setting
from torchserve_compat.store.models import entries, parse_table, snapshot_models
from torchserve_compat.store.settings import ignored, number, parsed, usable

_MAX_TEXT = 60  # characters of a name or value in a line
_MIN_SIMILARITY = 0.8  # difflib's ratio
_SECRET = ("keystore_pass",)  # settings whose values are not logged


def of_properties(runtime: Runtime, properties: Mapping[str, str]) -> list[str]:
    """Return a line for each setting of config.properties without effect, and one line for all unknown settings.

    Raises ConfigurationError for settings that must not be ignored.
    """
    given = {name: value.strip() for name, value in properties.items() if value.strip()}
    lines = list(_lines(runtime, "config.properties", PROPERTIES, given))
    if unknown := [name for name in given if name not in PROPERTIES]:
        lines.append(f"config.properties: {_listed(unknown)}: no setting of TorchServe 0.12{_meant(unknown)}")
    for table in ("model_snapshot", "models"):
        if not _overruled(PROPERTIES[table], given):
            lines += _of_versions(runtime, table, given.get(table, ""))
    return _bounded(lines)


def of_archive(runtime: Runtime, archive: str, yaml: Mapping[str, Any]) -> list[str]:
    """Return such lines for an archive's YAML, which `archive` names in them.

    Other keys are the handler's; a line names one that looks misspelt.
    """
    lines = list(_lines(runtime, archive, ARCHIVE, usable(yaml)))
    lines += (
        f"{archive}: {name}{_written(yaml[name])} has no effect, in TorchServe either; {cure}"
        for name, cure in ignored(yaml).items()
    )
    others = [_printable(name) for name in yaml if name not in ARCHIVE][:MAX_NAMED_SETTINGS]
    near = [(name, found) for name in others for found in difflib.get_close_matches(name, ARCHIVE, 1, _MIN_SIMILARITY)]
    return [*lines, *(f"{archive}: {name} is left to the handler; did you mean {found}?" for name, found in near)]


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_NOTICES
    return [*lines[:MAX_NOTICES], f"config.properties: {more} more like these"] if more > 0 else lines


def _of_versions(runtime: Runtime, setting: str, text: str) -> Iterator[str]:
    document = parse_table(setting, text or "{}")
    table = snapshot_models(document) if document and setting == "model_snapshot" else document
    for name, version, parameters in entries(setting, table):
        where = f"{setting} in config.properties: model {name}, version {version}"
        yield from _lines(runtime, where, PARAMETERS, parameters)
        if unknown := [one for one in parameters if one not in PARAMETERS and one not in ARCHIVE]:
            yield f"{where}: {_listed(unknown)}: no parameter of TorchServe 0.12"


def _lines(runtime: Runtime, where: str, table: Mapping[str, Setting], given: Mapping[str, Any]) -> Iterator[str]:
    for name, value in given.items():
        if not (setting := table.get(str(name))):
            continue
        if _overruled(setting, given):
            yield f"{where}: {name} has no effect beside {setting.overruled_by}; remove one of them"
            continue
        outcome = setting.outcome(runtime, value)
        if outcome.effect is Effect.REFUSED:
            raise ConfigurationError(f"{where} asks for {name}: {_printable(value)}, {outcome.why}.")
        if setting.least is not None and outcome.effect is not Effect.NONE:
            number(setting.name, value, where)  # raises here, before anything is started
        if outcome.effect is Effect.NONE:
            shown = "" if name in _SECRET else f" {_printable(value)}"
            yield f"{where}: {name}{shown} has no effect: {outcome.why}"


def _overruled(setting: Setting, given: Mapping[str, Any]) -> bool:
    return bool(setting.overruled_by and given.get(setting.overruled_by))


def _written(value: Any) -> str:
    """Return a value behind its name, a number in quotes with them: they are what is wrong with it."""
    is_quoted = isinstance(value, str) and parsed(value) is not None
    return f': "{_printable(value)}"' if is_quoted else f" {_printable(value)}"


def _printable(value: Any) -> str:
    text = str(value)
    text = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
    return text if text.isprintable() else repr(text)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED_SETTINGS
    return ", ".join(map(_printable, names[:MAX_NAMED_SETTINGS])) + (f" and {more} more" if more > 0 else "")


def _meant(unknown: Sequence[str]) -> str:
    """Suggest known settings with similar names."""
    some = map(_printable, unknown[:MAX_NAMED_SETTINGS])
    near = [found for name in some for found in difflib.get_close_matches(name, PROPERTIES, n=1)]
    return f"; did you mean {', '.join(dict.fromkeys(near))}?" if near else ""
