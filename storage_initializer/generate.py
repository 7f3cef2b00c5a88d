"""Write a configuration for a source that has models and no configuration.

Archives at the top, or in a model store, are all served. Batches and workers are left to each archive's own settings,
to the service and to the runtime's defaults.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from model_archive.archive import has_manifest, is_model, is_source, is_unpacked
from model_archive.configuration import CONFIG, STORES
from model_archive.errors import DamagedArchive
from model_archive.formats import is_bare_model
from model_archive.handlers import is_script
from model_archive.manifest import MANIFEST
from storage_initializer.errors import LayoutError
from storage_initializer.plan import LayoutName

log = logging.getLogger(__name__)

# Turns lists of numbers into a tensor and back; one of TorchServe's own.
_HANDLER = "base_handler"
_HEAD = "# Written by the storage-initializer, because the source has none.\n"
# For TorchServe. They are KServe's, on loopback: clients reach the adapter in front of it.
_ADDRESSES = """\
inference_address=http://127.0.0.1:8085
management_address=http://127.0.0.1:8085
metrics_address=http://127.0.0.1:8082
grpc_inference_port=7070
grpc_management_port=7071
"""
_SETTINGS = """\
enable_envvars_config=true
install_py_dep_per_model=true
model_store={store}
load_models=all
"""


def complete_layout(layout: LayoutName, root: Path) -> Sequence[str]:
    """Complete the folder, unless it has a configuration, be it misplaced, or no model; return what is not served."""
    if layout is LayoutName.NONE or _has_configuration(root):
        return ()
    entries = _entries(root)
    bare = [root / entry.name for entry in entries if is_bare_model(PurePath(entry.name)) and entry.is_file()]
    if archives := [root / entry.name for entry in entries if _is_archive(entry)]:
        _configure(layout, root, _store_with(root, archives))
        return beside_archives(bare)
    if stores := [name for name in STORES if _has_archive(root / name)]:
        _configure(layout, root, stores[0])
        return beside_archives(bare)
    if layout is LayoutName.AUTO and is_source(root):
        log.info("served as it is, by its own handler")
    elif bare:
        _complete_bare(layout, root, bare)
    return ()


def _has_configuration(root: Path) -> bool:
    name = PurePath(CONFIG).name
    return any(name in files or name in folders for _, folders, files in os.walk(root))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries by name. Each knows its type without a system call: there may be thousands of files."""
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def beside_archives(bare: Sequence[PurePath]) -> Sequence[str]:
    """Return that these files of models are not served; nothing if there are none."""
    if not bare:
        return ()
    names = ", ".join(each.name for each in bare)
    return (f"not served: {names}: beside archives, only those are; move these into a folder of their own",)


def _complete_bare(layout: LayoutName, root: Path, models: Iterable[Path]) -> None:
    if layout is LayoutName.AUTO:
        log.info("%s: served without an archive, which needs no %s", ", ".join(each.name for each in models), CONFIG)
        return
    for model in models:
        _make_archive(root / STORES[0], model)
    _configure(layout, root, STORES[0])


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


def _is_archive(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a model archive beside the model store."""
    if entry.is_dir():
        return entry.name not in STORES and is_unpacked(Path(entry))
    if entry.name.endswith(".tar.gz") and entry.is_file():
        try:
            return has_manifest(Path(entry), entry.name)
        except DamagedArchive as error:  # it may be a file of the model beside it
            log.warning("not served: %s", error)
            return False
    return entry.name.endswith(".mar") and not entry.name.startswith(".")


def _has_archive(store: Path) -> bool:
    return store.is_dir() and any(is_model(Path(entry)) for entry in _entries(store))


def _configure(layout: LayoutName, root: Path, store: str) -> None:
    config = root / CONFIG
    config.parent.mkdir(exist_ok=True)
    addresses = _ADDRESSES if layout is LayoutName.TORCHSERVE else ""
    config.write_text(_HEAD + addresses + _SETTINGS.format(store=store), encoding="ascii")
    log.info("wrote %s, because the source has none: all archives in %s are served", CONFIG, store)


def _make_archive(store: Path, model: Path) -> None:
    """Make an unpacked archive, a form that TorchServe takes as well: the model need not be copied into it."""
    if not is_script(model):
        raise LayoutError(
            f"TorchServe cannot serve {model.name} without an archive, since it is not TorchScript; take the runtime "
            "isvc-mar for ONNX and torch.export, or pack it and its handler with isvc pack"
        )
    if (store / model.stem).exists():
        raise LayoutError(f"{model.name} would have the same name as another model, {model.stem}; rename one")
    manifest = store / model.stem / MANIFEST
    manifest.parent.mkdir(parents=True)
    script = f"{model.stem}.pt"  # TorchServe's handlers load TorchScript from files with this suffix only
    content = {"modelName": model.stem, "modelVersion": "1.0", "handler": _HANDLER, "serializedFile": script}
    manifest.write_text(json.dumps({"runtime": "python", "model": content}, indent=2), encoding="utf-8")
    log.info("made %s/%s of %s, with TorchServe's %s", store.name, model.stem, model.name, _HANDLER)
    model.rename(store / model.stem / script)
