"""Whether a folder is laid out as TorchServe's users lay it out: ``config/config.properties`` and a model store.

Found before the server starts, a wrong name costs seconds; TorchServe itself starts with no model and no word.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from storage_initializer.archive import ARCHIVES, ArchivedModel, check_archive, is_unpacked
from storage_initializer.errors import LayoutError
from storage_initializer.limits import MAX_CONFIG
from storage_initializer.plan import LayoutName
from storage_initializer.suggest import suggestion

log = logging.getLogger(__name__)

CONFIG = "config/config.properties"
_LOAD_MODELS = "load_models"
STORES = ("model-store", "mar-store")
# Where KServe's users expect to find the model, and so what an absolute model_store of theirs starts with.
_MODELS_MOUNT = PurePosixPath("/mnt/models")
# Filled in from the server's environment, which is not ours.
_PLACEHOLDER = re.compile(r"\$\$[^$]+\$\$")


@dataclass(frozen=True)
class Reference:
    """An archive that the configuration names, and where it does."""

    archive: str
    named_by: str


def check_layout(layout: LayoutName, root: Path, destination: Path) -> None:
    """``root`` is where the files are now, ``destination`` where they will be."""
    if layout is LayoutName.TORCHSERVE or (layout is LayoutName.AUTO and _looks_like_torchserve(root)):
        check_torchserve(root, PurePosixPath(destination))


def check_torchserve(root: Path, destination: PurePosixPath) -> None:
    settings = parse_settings(_read_config(root))
    references = named_archives(settings)
    store = _find_store(root, settings, destination)
    entries = [entry for entry in (root / store).iterdir() if not entry.name.startswith(".")]
    there = [entry.name for entry in entries]
    for reference in references:
        if reference.archive not in there:
            if _is_done_without(reference, references, there):
                log.warning("%s names %s (load_models), but %s does not hold it", CONFIG, reference.archive, store)
                continue
            raise LayoutError(
                f"{CONFIG} names {reference.archive} ({reference.named_by}), but {store} does not hold it; "
                f"{suggestion(reference.archive, there)}"
            )
        check_archive(root / store / reference.archive, f"{store}/{reference.archive}")
        log.info("checked %s/%s (%s)", store, reference.archive, reference.named_by)
    if not references:
        _check_everything(store, entries)


def _is_done_without(reference: Reference, references: list[Reference], there: list[str]) -> bool:
    """Servers serve those of ``load_models`` that are there, and say of the others that they are not."""
    of_list = [one for one in references if one.named_by == _LOAD_MODELS]
    return reference in of_list and any(one.archive in there for one in of_list)


def parse_settings(content: bytes) -> dict[str, str]:
    import javaproperties  # the only dependency, and of this check alone

    try:
        return dict(javaproperties.load(BytesIO(content)))
    except ValueError as error:
        raise LayoutError(f"{CONFIG} is not a Java properties file ({error}); correct it") from error


def named_archives(settings: Mapping[str, str]) -> list[Reference]:
    """What TorchServe is told to load. With a model_snapshot it ignores load_models."""
    references: list[Reference] = []
    if text := _setting(settings, "model_snapshot"):
        references += _archives_of("model_snapshot", _parse_json("model_snapshot", text).get("models"))
    if text := _setting(settings, "models"):
        references += _archives_of("models", _parse_json("models", text))
    if "model_snapshot" not in settings:
        references += _loaded(_setting(settings, _LOAD_MODELS))
    return list(dict.fromkeys(references))


def store_below(configured: str, destination: PurePosixPath) -> PurePosixPath | None:
    """The model store relative to the model's folder; None where it lies elsewhere."""
    path = PurePosixPath(configured)
    for base in (destination, _MODELS_MOUNT):
        if path.is_relative_to(base):
            path = path.relative_to(base)
    return None if path.is_absolute() or ".." in path.parts else path


def _looks_like_torchserve(root: Path) -> bool:
    """A store alone may be what is wanted: the runtime without Java serves it. A misplaced configuration never is."""
    has_store = any((root / store).is_dir() for store in STORES)
    return (root / CONFIG).is_file() or (has_store and any(root.rglob(PurePosixPath(CONFIG).name)))


def _read_config(root: Path) -> bytes:
    config = root / CONFIG
    if not config.is_file():
        there = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        raise LayoutError(f"there is no {CONFIG}; {suggestion(CONFIG, there)}")
    with config.open("rb") as stream:
        content = stream.read(MAX_CONFIG + 1)
    if len(content) > MAX_CONFIG:
        raise LayoutError(f"{CONFIG} is larger than 1 MiB; it should be a short text file")
    return content


def _find_store(root: Path, settings: Mapping[str, str], destination: PurePosixPath) -> str:
    configured = settings.get("model_store", STORES[0]).strip()
    candidates = [store_below(configured, destination), *map(PurePosixPath, STORES)]
    for candidate in candidates:
        if candidate is not None and (root / candidate).is_dir():
            if candidate is not candidates[0]:
                log.info("model_store=%s is not there; taking %s", configured, candidate)
            return str(candidate)
    folders = [entry.name for entry in root.iterdir() if entry.is_dir()]
    raise LayoutError(f"there is no model store {configured}; {suggestion(configured, folders)}")


def _setting(settings: Mapping[str, str], key: str) -> str:
    value = settings.get(key, "").strip()
    return "" if _PLACEHOLDER.search(value) else value


def _parse_json(key: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20]
        raise LayoutError(
            f"{CONFIG}: {key} is not valid JSON ({error.msg} near {near!r}); "
            "correct it, and end each line of a long value but the last with a backslash"
        ) from None
    except RecursionError:
        raise LayoutError(f"{CONFIG}: {key} is nested too deep; correct it") from None
    if not isinstance(document, dict):
        raise LayoutError(f"{CONFIG}: {key} is not a JSON object; correct it")
    return document


def _archives_of(key: str, models: object) -> Iterator[Reference]:
    """Those of ``models`` may be left out: it holds parameters, for archives that ``load_models`` names."""
    for model, versions in _items(key, "models", models):
        for version, parameters in _items(key, f"model {model}", versions):
            where = f"model {model}, version {version}"
            settings = dict(_items(key, where, parameters))
            if key == "models" and "marName" not in settings:
                continue
            archive = settings.get("marName")
            if not isinstance(archive, str) or not archive:
                raise LayoutError(f'{CONFIG}: {key} has no "marName" for {where}; add it')
            yield Reference(_file_name(archive), f"{key}, {where}")


def _items(key: str, what: str, value: object) -> Iterator[tuple[str, object]]:
    if not isinstance(value, dict):
        raise LayoutError(f"{CONFIG}: {what} in {key} is not a JSON object; correct it")
    yield from value.items()


def _loaded(text: str) -> Iterator[Reference]:
    """``load_models`` is ``all``, or a list of ``ARCHIVE``, ``NAME=ARCHIVE`` and URLs that TorchServe downloads."""
    if text.lower() == "all":
        return
    for item in filter(None, map(str.strip, text.split(","))):
        archive = item.partition("=")[2] or item
        if "://" not in archive:
            yield Reference(_file_name(archive.strip()), _LOAD_MODELS)


def _file_name(archive: str) -> str:
    """TorchServe looks for the last part of the path in its store, whatever comes before."""
    return archive.rpartition("/")[2]


def _check_everything(store: str, entries: list[Path]) -> None:
    """What ``load_models=all`` loads, which is also what a server does that is told of no model."""
    archives = sorted(entry for entry in entries if entry.name.endswith(ARCHIVES) or is_unpacked(entry))
    if not archives:
        raise LayoutError(f"{store} holds no archive; put the .mar files there")
    models: dict[ArchivedModel, str] = {}
    for archive in archives:
        model = check_archive(archive, f"{store}/{archive.name}")
        if other := models.get(model):
            raise LayoutError(f"{other} and {archive.name} in {store} both hold {model}; remove one of them")
        models[model] = archive.name
        log.info("checked %s/%s (all are loaded; %s)", store, archive.name, model)
