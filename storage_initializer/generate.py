"""Completes a source that has models and no configuration, where it is plain what TorchServe should make of them.

Archives at the top, or in a model store, are all served. Such a configuration says no more than it must: what
batches and workers there are is left to each archive's own settings, to the service and to the runtime's defaults.
"""

from __future__ import annotations

import json
import logging
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePath

from storage_initializer.archive import ARCHIVES, MANIFEST
from storage_initializer.contents import Contents, exact
from storage_initializer.errors import LayoutError
from storage_initializer.layout import CONFIG, STORES
from storage_initializer.plan import LayoutName
from storage_initializer.zips import open_zip

log = logging.getLogger(__name__)

_SCRIPT = ".pt"
_BARE_MODELS = (_SCRIPT, ".pt2", ".onnx")
# Turns lists of numbers into a tensor and back; one of TorchServe's own.
_HANDLER = "base_handler"
# The addresses are KServe's, on loopback: what serves clients stands before TorchServe.
_SETTINGS = """\
# Written by the storage-initializer, because the source has none.
inference_address=http://127.0.0.1:8085
management_address=http://127.0.0.1:8085
metrics_address=http://127.0.0.1:8082
grpc_inference_port=7070
grpc_management_port=7071
enable_envvars_config=true
install_py_dep_per_model=true
model_store={store}
load_models=all
"""


def complete_layout(layout: LayoutName, root: Path) -> None:
    """Where there is a configuration, be it misplaced, or no model, nothing is done."""
    if layout is LayoutName.NONE or _has_configuration(root):
        return
    entries = _entries(root)
    if archives := [root / entry.name for entry in entries if entry.name.endswith(".mar") or _is_unpacked(entry)]:
        _configure(root, _store_with(root, archives))
    elif stores := [name for name in STORES if _has_archive(root / name)]:
        _configure(root, stores[0])
    elif bare := [root / entry.name for entry in entries if entry.name.endswith(_BARE_MODELS) and entry.is_file()]:
        _complete_bare(layout, root, bare)


def _has_configuration(root: Path) -> bool:
    name = PurePath(CONFIG).name
    return any(name in files or name in folders for _, folders, files in os.walk(root))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """By name. Each knows its type without being asked for: a source may have thousands of files."""
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _complete_bare(layout: LayoutName, root: Path, models: Iterable[Path]) -> None:
    if layout is LayoutName.AUTO:
        log.info("%s: served without an archive, which needs no %s", ", ".join(each.name for each in models), CONFIG)
        return
    for model in models:
        _make_archive(root / STORES[0], model)
    _configure(root, STORES[0])


def _store_with(root: Path, archives: Iterable[Path]) -> str:
    store = next((name for name in STORES if (root / name).is_dir()), STORES[0])
    (root / store).mkdir(exist_ok=True)
    for archive in archives:
        place = root / store / archive.name
        if place.exists():
            raise LayoutError(f"there are two archives {archive.name}, one of them in {store}; remove one")
        archive.rename(place)
        log.info("moved %s into %s", archive.name, store)
    return store


def _has_archive(store: Path) -> bool:
    if not store.is_dir():
        return False
    return any(entry.name.endswith(ARCHIVES) or _is_unpacked(entry) for entry in _entries(store))


def _is_unpacked(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and Path(entry, MANIFEST).is_file()


def _configure(root: Path, store: str) -> None:
    config = root / CONFIG
    config.parent.mkdir(exist_ok=True)
    config.write_text(_SETTINGS.format(store=store), encoding="ascii")
    log.info("wrote %s, because the source has none: all archives in %s are served", CONFIG, store)


def _make_archive(store: Path, model: Path) -> None:
    """An unpacked one, a form that TorchServe takes as well: the model need not be copied into it."""
    if not _is_script(model):
        raise LayoutError(
            f"TorchServe cannot serve {model.name} without an archive, since it is no TorchScript; take the runtime "
            "isvc-mar for ONNX and torch.export, or pack it and its handler with torch-model-archiver"
        )
    manifest = store / model.stem / MANIFEST
    manifest.parent.mkdir(parents=True)
    content = {"modelName": model.stem, "modelVersion": "1.0", "handler": _HANDLER, "serializedFile": model.name}
    manifest.write_text(json.dumps({"runtime": "python", "model": content}, indent=2), encoding="utf-8")
    log.info("made %s/%s of %s, with TorchServe's %s", store.name, model.stem, model.name, _HANDLER)
    model.rename(store / model.stem / model.name)


def _is_script(model: Path) -> bool:
    """A state dict is a zip as well; only a program has constants."""
    if model.suffix != _SCRIPT or not zipfile.is_zipfile(model):
        return False
    contents = Contents(model.name, model.stat().st_size, "export it again with torch.jit.save", exact)
    with open_zip(model, contents) as (_, files):
        return any(path.name == "constants.pkl" for path in files)
