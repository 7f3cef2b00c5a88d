"""Folders as TorchServe's users keep them: the story's config.properties and archives as small as can be."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

STORY_CONFIG = (Path(__file__).parents[2] / "examples/bert/config.properties").read_text(encoding="utf-8")

Manifest = dict[str, Any]


def manifest(**model: Any) -> Manifest:
    """What torch-model-archiver writes; ``model``'s fields replace those of the archive's model, None removes one."""
    fields = {"modelName": "bert-model", "modelVersion": "1.0", "handler": "handler.py", **model}
    return {
        "createdOn": "01/10/2026 12:00:00",
        "runtime": "python",
        "model": {name: value for name, value in fields.items() if value is not None},
        "archiverVersion": "0.12.0",
    }


def write_mar(path: Path, content: Manifest | bytes | None = None, files: Mapping[str, bytes] | None = None) -> Path:
    """An archive with ``content`` as its manifest, whole and valid unless told otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, bytes) else json.dumps(content or manifest()).encode()
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, data in (files or {"handler.py": b"def handle(data, context): return data\n"}).items():
            archive.writestr(name, data)
        archive.writestr("MAR-INF/MANIFEST.json", text)
    return path


def write_tar(path: Path, *members: tarfile.TarInfo, top: str = "bert") -> Path:
    """A .tar.gz archive with ``members`` beside its manifest."""
    content = json.dumps(manifest()).encode()
    info = tarfile.TarInfo(f"{top}/MAR-INF/MANIFEST.json")
    info.size = len(content)
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
        archive.addfile(info, io.BytesIO(content))
    return path


def write_volume(root: Path, config: str = STORY_CONFIG, store: str = "model-store") -> Path:
    """A volume as in the story: ``config/config.properties`` and ``model-store/bert-model.mar``."""
    (root / "config").mkdir(parents=True)
    (root / "config/config.properties").write_text(config, encoding="utf-8")
    write_mar(root / store / "bert-model.mar")
    return root


def read_tree(root: Path) -> dict[str, bytes]:
    """Every file below ``root`` with its content."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def write_files(root: Path, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files, as ``read_tree`` gives them."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return dict(files)


def packed_zip(files: Mapping[str, bytes]) -> bytes:
    """A zip of the files."""
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()
