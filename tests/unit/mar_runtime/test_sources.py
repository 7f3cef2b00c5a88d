"""A folder with a handler, served where it lies: as the archive that ``isvc pack`` would make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from data_plane.model_server.errors import ModelFailed
from mar_runtime.archives.unpack import UnpackedArchive, unpack
from mar_runtime.configuration.model_directory import ModelDirectory, read
from mar_runtime.configuration.plan import ArchiveRequest, FileRequest
from model_archive.manifest import Manifest
from tests.support.model_folder import manifest
from torchserve_compat.store import rules
from torchserve_compat.store.versions import ModelVersion

HANDLER = "def handle(data, context):\n    return data\n"


def look(folder: Path) -> ModelDirectory:
    return read(rules.RuleInputs(folder, {}, Path.is_dir), "service")


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_a_folder_with_a_handler_is_the_services_model(tmp_path: Path) -> None:
    write(tmp_path, handler__py=HANDLER, model__pt="weights")

    version = ModelVersion("service", "1.0", "handler.py", is_default=True)
    settings = {"install_py_dep_per_model": "true"}
    assert look(tmp_path) == ModelDirectory([ArchiveRequest(version, tmp_path)], settings)


def test_its_settings_lie_beside_the_handler_and_name_no_store(tmp_path: Path) -> None:
    table = {"service": {"1.0": {"batchSize": 8}}}
    settings = f"model_store=/home/me\nload_models=a.mar\nmax_request_size=7\nmodels={json.dumps(table)}"
    write(tmp_path, handler__py=HANDLER, config__properties=settings)

    found = look(tmp_path)

    assert found.properties == {"max_request_size": "7", "models": json.dumps(table)}
    assert [request.version.parameters for request in found.models if isinstance(request, ArchiveRequest)] == [
        {"batchSize": 8}
    ]


def test_an_unpacked_archive_is_a_model_too(tmp_path: Path) -> None:
    write(tmp_path / "MAR-INF", MANIFEST__json=json.dumps(manifest(modelName="mine", modelVersion="3.0")))

    version = ModelVersion("service", "3.0", tmp_path.name, is_default=True)
    assert look(tmp_path).models == [ArchiveRequest(version, tmp_path)]


def test_weights_without_a_handler_are_a_bare_model(tmp_path: Path) -> None:
    write(tmp_path, model__py="", model__pt="weights")

    assert look(tmp_path).models == (FileRequest("service", tmp_path / "model.pt"),)


def test_it_gets_the_manifest_that_it_would_be_packed_with(tmp_path: Path) -> None:
    source = write(tmp_path / "source", handler__py=HANDLER, model__pt="w", model__py="", requirements__txt="")
    source.chmod(0o555)
    folder = tmp_path / "work"
    write(folder, left__over="")

    assert unpack(source, folder, "mine") == UnpackedArchive(
        folder,
        Manifest("mine", "1.0", "handler.py", "requirements.txt", None, "model.py", "model.pt"),
    )
    assert sorted(entry.name for entry in folder.iterdir()) == sorted(
        ["MAR-INF", *(entry.name for entry in source.iterdir())]
    )
    assert (folder / "handler.py").read_text() == HANDLER


def test_of_several_weights_the_handler_loads_what_it_names(tmp_path: Path) -> None:
    source = write(tmp_path / "source", handler__py=HANDLER, model__py="", a__pt="", b__pt="")
    folder = tmp_path / "work"

    assert unpack(source, folder, "mine") == UnpackedArchive(folder, Manifest("mine", "1.0", "handler.py"))


def test_several_weights_of_which_base_handler_would_load_one_are_refused(tmp_path: Path) -> None:
    handler = "from ts.torch_handler.base_handler import BaseHandler\nclass Own(BaseHandler): ...\n"
    source = write(tmp_path / "source", handler__py=handler, a__pt="", b__pt="")

    with pytest.raises(ModelFailed) as raised:
        unpack(source, tmp_path / "work", "mine")

    assert str(raised.value) == (
        f"{source}: TorchServe's BaseHandler loads one of a.pt, b.pt; move the others into a folder below the "
        "handler, or name one: isvc pack FOLDER --serialized-file a.pt."
    )
