"""Writes the YAML of a model that has none: of a file, an archive, or a folder with either or with a handler."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from errno import ENOENT
from pathlib import Path
from typing import Final

import yaml

from isvc.limits import FILE_BYTES
from isvc.run.documents import YamlText
from isvc.run.errors import UnusableInput, unusable_because
from isvc.run.files import unreadable
from isvc_operator.api import inference_service
from isvc_operator.api.names import ANNOTATION_ALLOW_PATTERNS, ANNOTATION_IGNORE_PATTERNS
from model_archive.archive import ENDINGS, HANDLER, is_model, is_source, is_unpacked, read_file, read_manifest
from model_archive.configuration import CONFIG, STORES
from model_archive.errors import DamagedArchive, InvalidArchive, NoModel
from model_archive.formats import SUFFIXES, format_of, is_bare_model
from model_archive.inspection import reader_of
from model_archive.limits import MAX_CHECKED
from model_archive.manifest import Manifest

_YAML: Final = (".yaml", ".yml", ".json")
_OBJECT: Final = re.compile(rb"\bapiVersion[\"']?\s*:\s*[\"']?(?:[a-z][\w.-]*/)?v\d")
_SETTINGS: Final = "model-config.yaml"
_NAME_LENGTH: Final = 53  # with which names of children still fit
# Such as .git and .venv: what isvc pack leaves out as well.
_HIDDEN: Final = ".*,*/.*,__pycache__/,*/__pycache__/"
_WEIGHTS: Final = ".data"  # behind the name of the ONNX file, by torch.onnx.export
HEAD: Final = """\
# storageUri is a path of this machine. For a cluster, copy the model to a claim or a bucket, and name that.
"""


def is_without_yaml(path: Path) -> bool:
    """Return whether a path is a model: a file, or a folder with one at its top and no Kubernetes object beside it.

    Raises UnusableInput for a folder of neither, such as a model of Hugging Face without a handler.
    """
    if not path.is_dir():
        return path.name.endswith((*SUFFIXES, *ENDINGS))
    entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    has_model = (
        is_source(path)
        or (path / CONFIG).is_file()
        or any(entry.name in STORES or entry.name.endswith((*SUFFIXES, *ENDINGS)) for entry in entries)
    )
    if has_model:
        return not any(map(_is_object, entries))
    if not any(map(_is_object, path.rglob("*"))):
        raise UnusableInput(
            f"{path} has no model at its top (handler.py, {', '.join((*SUFFIXES, *ENDINGS))}), and no YAML of a "
            f"service; add a handler.py that loads what is there{handler_to_copy(path)}, or name another folder"
        )
    return False


def handler_to_copy(folder: Path) -> str:
    """Return where a handler is for a folder as transformers saves it, in brackets; empty for any other."""
    return " (docs/huggingface.md has one to copy)" if (folder / "config.json").is_file() else ""


def _is_object(file: Path) -> bool:
    if file.suffix not in _YAML or not file.is_file():
        return False
    with file.open("rb") as stream:
        return _OBJECT.search(stream.read(FILE_BYTES)) is not None


def yaml_of(path: Path) -> YamlText:
    """Return a service of a model, which has the name of its file or folder; raises UnusableInput if that is missing.

    The format is ONNX if all bare models are ONNX files. The weights that torch writes beside one come along.
    """
    if not path.exists():
        raise unreadable(path, FileNotFoundError(ENOENT, os.strerror(ENOENT)))
    place = Path(os.path.abspath(path))  # noqa: PTH100 - a link keeps its name
    is_onnx = {model.suffix for model in _bare_models(path)} == {".onnx"}
    annotations = {"annotations": {ANNOTATION_IGNORE_PATTERNS: _HIDDEN}} if path.is_dir() else {}
    source, weights = place, place.with_name(f"{place.name}{_WEIGHTS}")
    if is_onnx and not path.is_dir() and weights.is_file():
        source = place.parent
        annotations = {"annotations": {ANNOTATION_ALLOW_PATTERNS: f"{place.name},{weights.name}"}}
    service = {
        "apiVersion": inference_service.API_VERSION,
        "kind": inference_service.KIND,
        "metadata": {"name": _name_of(place), **annotations},
        "spec": {
            "predictor": {
                "model": {
                    "modelFormat": {"name": "onnx" if is_onnx else "pytorch"},
                    "storageUri": f"file://{source}",
                }
            }
        },
    }
    name_folder = "" if path.is_dir() else f", or name its folder: isvc run {shlex.quote(str(path.parent))}"
    return YamlText(
        str(path),
        yaml.safe_dump(service, sort_keys=False, width=FILE_BYTES),
        instead=f"a service has the name of its file or folder, so rename one{name_folder}",
    )


def _bare_models(path: Path) -> list[Path]:
    """Return the files that are served as they are: those beside a handler or an archive are not."""
    entries = list(path.iterdir()) if path.is_dir() else [path]
    if is_source(path) or any(entry.name in STORES or entry.name.endswith(ENDINGS) for entry in entries):
        return []
    return list(filter(is_bare_model, entries))


def check_loadable(path: Path) -> None:
    """Raise UnusableInput for files that no server can load; it does not serve what lies beside them either.

    Of an archive, what is before its manifest is read.
    """
    for archive in _archives(path):
        try:
            read_manifest(archive, str(archive))
        except DamagedArchive as error:
            raise UnusableInput(str(error)) from error
        except (InvalidArchive, OSError):
            continue  # the servers say more; a .tar.gz may hold something else
    models, problems = _bare_models(path), []
    for model in models:
        try:
            format_of(model, model)
        except NoModel as error:
            problems.append(f"{model}: {error}")
    if problems and len(problems) < len(models):
        problems.append(f"to serve the other models of {path}, move what is named here elsewhere")
    if problems:
        raise unusable_because(problems)


def _archives(path: Path) -> list[Path]:
    """Return the packed archives that are served for certain: where there is a configuration, it may leave some out."""
    if not path.is_dir():
        return [path] if path.name.endswith(ENDINGS) else []
    if (path / CONFIG).exists():
        return []
    found = (*path.glob("*.mar"), *(entry for store in STORES for entry in path.glob(f"{store}/*")))
    return sorted(entry for entry in found if entry.is_file() and is_model(entry))


def unused_config(path: Path) -> str:
    """Return that the settings beside a model's file are not used, and how they are; empty if there are none."""
    if path.is_dir() or not _bare_models(path) or not (path.parent / _SETTINGS).is_file():
        return ""
    return f"{path.parent / _SETTINGS} is not used with a file; to use it, name the folder: isvc run {path.parent}"


def without_yaml_below(path: Path) -> str:
    """Return that a folder of YAML has a model below it, which needs none; empty if it has none."""
    below = sorted(path.glob(f"*/{HANDLER}")) if path.is_dir() else []
    return f"{below[0].parent} is a model; to serve it without YAML: isvc run {below[0].parent}" if below else ""


def _name_of(path: Path) -> str:
    """Return a name that a service may have."""
    ending = next((ending for ending in (*SUFFIXES, *ENDINGS) if path.name.endswith(ending)), "")
    words = re.sub(r"[^a-z0-9]+", "-", path.name.removesuffix(ending).lower()).strip("-")
    name = words if words[:1].isalpha() else f"model-{words}".rstrip("-")
    return name[:_NAME_LENGTH].rstrip("-")


def handlers_in(folder: Path, service_name: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each model with a handler in a folder of models, and the handler that reads its requests.

    A folder that is one model has the service's name.
    """
    if is_source(folder) and (handler := _handler_of(folder)):
        yield service_name, handler[1]
    for store in (folder, *(folder / name for name in STORES)):
        for path in store.iterdir() if store.is_dir() else ():
            if is_model(path) and (handler := _handler_of(path)):
                yield handler


def _handler_of(model: Path) -> tuple[str, str] | None:
    """Return a model's name and what reads its requests; None if its server says what is wrong with it."""
    try:
        is_bare = model.is_dir() and not is_unpacked(model)
        manifest = Manifest("", "", HANDLER) if is_bare else read_manifest(model, model.name)
        reader = reader_of(manifest, lambda file: read_file(model, file, model.name, limit=MAX_CHECKED))
    except (InvalidArchive, OSError):
        return None
    return manifest.model_name, reader
