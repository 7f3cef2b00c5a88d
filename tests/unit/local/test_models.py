"""Models without YAML: which paths are models, and the service that is made of each."""

from __future__ import annotations

import json
import os
import pickle
import tarfile
from collections import OrderedDict
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

from isvc.run.documents import read_documents
from isvc.run.errors import UnusableInput
from isvc.run.models import check_loadable, handlers_in, is_without_yaml, unused_config, without_yaml_below, yaml_of
from model_archive.configuration import CONFIG
from tests.support.model_folder import manifest, write_files, write_mar, write_tar

HANDLER = "handler.py"
OBJECT = "apiVersion: v1\nkind: ConfigMap\n"


def folder(path: Path, *files: str, **contents: str) -> Path:
    path.mkdir(exist_ok=True, parents=True)
    for name in files:
        (path / name).parent.mkdir(exist_ok=True, parents=True)
        (path / name).touch()
    for name, content in contents.items():
        (path / f"{name}.yaml").write_text(content)
    return path


def service(name: str, uri: Path, model_format: str = "pytorch", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, **metadata},
        "spec": {"predictor": {"model": {"modelFormat": {"name": model_format}, "storageUri": f"file://{uri}"}}},
    }


@pytest.mark.parametrize("file", ["a.pt", "a.pth", "a.ts", "a.pt2", "a.onnx", "a.mar", "a.tar.gz", "v1.2.onnx"])
def test_a_file_of_a_model_is_one(file: str) -> None:
    assert is_without_yaml(Path("models") / file)


@pytest.mark.parametrize("file", ["a.yaml", "-", "a", "a.safetensors"])
def test_any_other_file_is_yaml(file: str) -> None:
    assert not is_without_yaml(Path(file))


@pytest.mark.parametrize(
    "file", [HANDLER, "a.onnx", "a.mar", "model-store/a.mar", "config/config.properties", "MAR-INF/MANIFEST.json"]
)
def test_a_folder_with_a_model_at_its_top_is_one(tmp_path: Path, file: str) -> None:
    words = '{\n  "apiVersion": 5012\n}'
    assert is_without_yaml(folder(tmp_path, file, **{"model-config": "batchSize: 1\n", "vocab": words}))


@pytest.mark.parametrize("text", [OBJECT, '{"kind":"List","apiVersion":"v1"}', "'apiVersion': apps/v1"])
def test_a_folder_with_an_object_of_kubernetes_is_yaml(tmp_path: Path, text: str) -> None:
    assert not is_without_yaml(folder(tmp_path / "a", HANDLER, service=text))
    folder(tmp_path / "b/services", service=OBJECT)
    assert not is_without_yaml(folder(tmp_path / "b", "models/a.onnx", "config.json"))


def test_a_folder_of_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=rf"^{tmp_path} has no model at its top \(handler\.py, .*add a handler\.py"):
        is_without_yaml(folder(tmp_path, "model.safetensors"))


def test_a_model_of_hugging_face_without_a_handler_is_led_to_one_to_copy(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput) as raised:
        is_without_yaml(folder(tmp_path, "config.json", "model.safetensors"))

    advice = "add a handler.py that loads what is there (docs/huggingface.md has one to copy), or name another folder"
    assert str(raised.value).endswith(f"; {advice}")


@pytest.mark.parametrize(
    ("file", "name", "model_format"),
    [
        ("ResNet_50.onnx", "resnet-50", "onnx"),
        ("bert.mar", "bert", "pytorch"),
        ("2024 model.tar.gz", "model-2024-model", "pytorch"),
        ("_.pt", "model", "pytorch"),
        (f"{'a' * 60}.pt2", "a" * 53, "pytorch"),
    ],
)
def test_a_service_has_its_models_name(tmp_path: Path, file: str, name: str, model_format: str) -> None:
    path = folder(tmp_path, file) / file

    assert yaml.safe_load(yaml_of(path).content) == service(name, path, model_format)


def test_models_of_one_name_are_told_how_both_are_served(tmp_path: Path) -> None:
    first, second = (yaml_of(folder(tmp_path / name, "net.pt") / "net.pt") for name in ("a", "b c"))
    rename = "a service has the name of its file or folder, so rename one"
    cases = {
        second: f"{rename}, or name its folder: isvc run '{tmp_path}/b c'",
        yaml_of(folder(tmp_path / "net")): rename,
        first: "remove one of them",
    }

    for other, instead in cases.items():
        _, (problem,) = read_documents([first, other], "default")
        assert problem.text == (
            f"InferenceService net of namespace default is given twice: object 1 of {first.source}, and object 1 of "
            f"{other.source}; {instead}"
        )


def test_the_path_of_a_folder_is_whole_and_what_lies_hidden_in_it_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder(tmp_path / "mine", HANDLER))

    made = yaml_of(Path())

    assert made.source == "."
    ignored = {"storage.isvc-operator.io/ignore-patterns": ".*,*/.*,__pycache__/,*/__pycache__/"}
    assert yaml.safe_load(made.content) == service("mine", tmp_path / "mine", annotations=ignored)


def test_weights_that_torch_has_written_beside_an_onnx_file_come_along(tmp_path: Path) -> None:
    folder(tmp_path, "m.onnx", "m.onnx.data", "other.onnx")

    made = yaml.safe_load(yaml_of(tmp_path / "m.onnx").content)

    annotations = {"storage.isvc-operator.io/allow-patterns": "m.onnx,m.onnx.data"}
    assert made == service("m", tmp_path, "onnx", annotations=annotations)


def test_onnx_files_alone_need_no_torch(tmp_path: Path) -> None:
    formats = [
        yaml.safe_load(yaml_of(folder(tmp_path / str(index), *files)).content)["spec"]["predictor"]["model"]
        for index, files in enumerate((["a.onnx", "b.onnx"], ["a.onnx", "b.pt"], ["a.onnx", HANDLER], ["a.mar"]))
    ]

    assert [model["modelFormat"]["name"] for model in formats] == ["onnx", "pytorch", "pytorch", "pytorch"]


def test_a_model_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnusableInput, match=r"^absent\.onnx cannot be read: No such file or directory$"):
        yaml_of(Path("absent.onnx"))


def test_a_file_that_no_server_can_load_is_refused_unless_a_handler_or_an_archive_is_beside_it(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=rf"^{tmp_path}/a/m\.pt: is empty; copy or save it again$"):
        check_loadable(folder(tmp_path / "a", "m.pt"))
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(UnusableInput, match=rf"^{tmp_path}/text\.onnx: is not an ONNX model; export it again"):
        check_loadable(tmp_path / "text.onnx")
    check_loadable(folder(tmp_path / "b", "m.pt", HANDLER))
    for index, archive in enumerate(("a.mar", "model-store/a.mar")):
        models = folder(tmp_path / str(index), "m.pt", archive)
        write_mar(models / archive, manifest())
        check_loadable(models)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.mar", "is truncated: after 64 bytes the zip directory is missing; copy it to the source again"),
        ("a.tar.gz", "is truncated or not a tar.gz (64 bytes: Compressed file ended before the end-of-stream marker "
         "was reached); copy it to the source again"),
    ],
)  # fmt: skip
def test_an_archive_that_is_truncated_is_refused(tmp_path: Path, name: str, why: str) -> None:
    path = tmp_path / name
    if name.endswith(".mar"):
        write_mar(path, manifest())
    else:
        write_tar(path, tarfile.TarInfo("bert/handler.py"))
    check_loadable(path)
    path.write_bytes(path.read_bytes()[:64])

    with pytest.raises(UnusableInput) as raised:
        check_loadable(path)

    assert str(raised.value) == f"{path} {why}"


@pytest.mark.parametrize("place", ["", "model-store", "mar-store"])
def test_an_archive_in_a_folder_that_is_truncated_is_refused_unless_a_configuration_may_leave_it_out(
    tmp_path: Path, place: str
) -> None:
    store = tmp_path / place
    store.mkdir(exist_ok=True)
    write_mar(store / "a.mar", manifest())
    bad = store / "b.mar"
    bad.write_bytes((store / "a.mar").read_bytes()[:64])

    with pytest.raises(UnusableInput) as raised:
        check_loadable(tmp_path)

    why = "is truncated: after 64 bytes the zip directory is missing; copy it to the source again"
    assert str(raised.value) == f"{bad} {why}"
    (tmp_path / CONFIG).parent.mkdir()
    (tmp_path / CONFIG).write_text("load_models=a.mar\n")
    check_loadable(tmp_path)


def test_an_archive_of_something_else_is_left_to_what_unpacks_it(tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch()
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "model.pt", "model.pt")

    check_loadable(tmp_path / "a.tar.gz")


def test_files_that_cannot_be_loaded_do_not_stand_for_the_folder(tmp_path: Path) -> None:
    models = folder(tmp_path / "m", "a.pt", "b.onnx")
    (models / "net.onnx").write_bytes(b"\x08\x08\x3a\0")

    with pytest.raises(UnusableInput) as raised:
        check_loadable(models)

    *problems, rest = str(raised.value).split("\nisvc: ")
    assert sorted(problems) == [
        f"{models}/a.pt: is empty; copy or save it again",
        f"{models}/b.onnx: is empty; copy or save it again",
    ]
    assert rest == f"to serve the other models of {models}, move what is named here elsewhere"


def test_settings_beside_a_file_are_said_not_to_be_used(tmp_path: Path) -> None:
    models = folder(tmp_path, "m.pt", "a.mar", **{"model-config": "batchSize: 1\n"})

    assert unused_config(models / "m.pt") == (
        f"{models}/model-config.yaml is not used with a file; to use it, name the folder: isvc run {models}"
    )
    assert [unused_config(path) for path in (models, models / "a.mar", folder(tmp_path / "b", "m.pt") / "m.pt")] == [
        ""
    ] * 3


def test_a_model_below_a_folder_of_yaml_is_named(tmp_path: Path) -> None:
    project = folder(tmp_path, "model/handler.py", "train.py", service=OBJECT)

    assert [without_yaml_below(path) for path in (project, project / "model", project / "service.yaml")] == [
        f"{project}/model is a model; to serve it without YAML: isvc run {project}/model", "", "",
    ]  # fmt: skip


def test_what_reads_the_requests_of_models_with_handlers_is_found_where_servers_find_them(tmp_path: Path) -> None:
    text = b"from ts.torch_handler.image_classifier import ImageClassifier\nclass Mine(ImageClassifier): ...\n"
    write_mar(tmp_path / "a.mar", manifest(modelName="a", handler="image_classifier"))
    write_mar(tmp_path / "model-store/b.mar", manifest(modelName="b", handler="mine.py"))
    write_mar(tmp_path / "model-store/c.mar", manifest(modelName="c"), {HANDLER: text})
    write_files(tmp_path / "lone", {HANDLER: text})
    write_files(tmp_path / "unpacked", {HANDLER: text, "MAR-INF/MANIFEST.json": json.dumps(manifest()).encode()})
    (tmp_path / "broken.mar").touch()
    os.mkfifo(tmp_path / "pipe")

    assert [dict(handlers_in(tmp_path / place, "first")) for place in ("", "lone", "unpacked")] == [
        {"a": "image_classifier", "b": "mine.py", "c": "image_classifier", "bert-model": "image_classifier"},
        {"first": "image_classifier"},
        {"first": "image_classifier"},
    ]


def test_the_command_that_packs_a_state_dict_can_be_copied_from_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my models"
    folder.mkdir()
    with ZipFile(folder / "w.pt", "w") as file:
        file.writestr("w/data.pkl", pickle.dumps(OrderedDict(weight=1), protocol=2))
        file.writestr("w/version", b"")

    alone = loading(folder / "w.pt")
    monkeypatch.chdir(folder)
    assert "--model-file model.py --serialized-file w.pt; then" in loading(Path("w.pt"))
    (folder / "train.py").write_text("from torch import nn\n\nclass Net(nn.Module): ...\n\nNet().train()")
    (folder / "net.py").write_text("from torch import nn\n\nclass Net(nn.Module): ...")
    beside = loading(folder / "w.pt")
    (folder / "net.py").rename(folder / "model.py")
    as_named = loading(folder / "w.pt")
    (folder / "other.onnx").touch()
    assert "--model-file model.py --serialized-file w.pt; then" in loading(Path("w.pt"))

    begin = (
        f"{folder}/w.pt: holds weights only (a state dict), and needs its class: package it with its class as a .mar"
    )
    options = f"--serialized-file '{folder}/w.pt'; then isvc run NAME.mar)"
    assert (alone, beside, as_named) == (
        f"{begin} (isvc pack --model-name NAME --model-file model.py {options}",
        f"{begin} (isvc pack --model-name NAME --model-file '{folder}/net.py' {options}",
        f"{begin} (isvc pack '{folder}'; then isvc run 'my models.mar')",
    )


def loading(path: Path) -> str:
    with pytest.raises(UnusableInput) as refused:
        check_loadable(path)
    return str(refused.value)
