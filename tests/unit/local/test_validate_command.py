"""``isvc validate``: what was found on stdout, and an exit code that says how bad it is."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import yaml

from isvc.commands import main
from tests.support.local_services import runtime, service, write_yaml


def test_what_is_served_as_written_is_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(write_yaml(tmp_path / "my.yaml", service(), runtime()))]) == 0

    assert capsys.readouterr() == ("ok: 1 service can be served as written\n", "")


def test_files_without_an_object_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("# nothing\n---\n")

    assert main(["validate", str(empty)]) == 2

    message = "the files contain no object; write an InferenceService, or name other files"
    assert capsys.readouterr() == (f"error: {message}\n", "")


@pytest.mark.parametrize("command", ["validate", "render", "diff"])
@pytest.mark.parametrize("file", ["a.pt", "a b.onnx", "a.mar", "folder"])
def test_a_model_is_named_with_what_takes_it(
    command: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name in ("a.pt", "a b.onnx", "a.mar", "folder/handler.py", "folder/model-config.yaml"):
        Path(name).touch()

    assert main([command, file]) == 2

    place = f"'{file}'" if " " in file else file
    assert capsys.readouterr() == (
        "", f"isvc: {file} is a model, and not YAML; isvc inspect {place} says what it holds, and isvc run {place} "
        "serves it\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("servce.yaml", " (did you mean service.yaml?)"),
        ("modle.onnx", " (did you mean model.onnx?)"),
        ("other.pt", ""),
        ("s3:/bucket/model.pt", "; to serve what a URI names, write it as the storageUri of an InferenceService, and "
         "name that file"),
    ],
)  # fmt: skip
def test_instead_of_a_file_that_is_missing_what_may_be_meant_is_named(
    file: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("service.yaml", "model.onnx"):
        Path(name).touch()

    assert main(["run", file]) == 2

    assert capsys.readouterr().err == f"isvc: {file} cannot be read: No such file or directory{hint}\n"


@pytest.mark.parametrize("command", ["run", "validate"])
@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("m/handler.py", "is Python, and no model; its folder is one: isvc run m"),
        ("h/net.py", "is Python, and no model; its folder is one: isvc run h"),
        ("a.py", "is Python, and no model; what is served is a file (.pt, .pth, .ts, .pt2, .onnx, .mar, .model, "
         ".tar.gz), or a folder with a handler.py that loads the model, such as isvc new model NAME makes"),
        ("a.safetensors", "has weights, which a program loads; write a handler.py beside it, and name the folder: "
         "isvc run ."),
        ("a.zip", "is an archive; unpack it, and name the folder that was in it"),
        ("bert/model.safetensors", "has weights, which a program loads; write a handler.py beside it "
         "(docs/huggingface.md has one to copy), and name the folder: isvc run bert"),
    ],
)  # fmt: skip
def test_a_part_of_a_model_is_named_with_its_folder(
    command: str, file: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for beside in ("m/README.md", "h/handler.py", "bert/config.json"):
        Path(beside).parent.mkdir()
        Path(beside).touch()
    Path(file).touch()

    assert main([command, file]) == 2

    assert capsys.readouterr() == ("", f"isvc: {file} {what}\n")


@pytest.mark.parametrize(("command", "stream"), [("validate", "out"), ("render", "err")])
def test_a_service_without_a_model_is_told_what_is_missing(
    command: str, stream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = service()
    del body["spec"]["predictor"]["model"]["storageUri"]

    assert main([command, str(write_yaml(tmp_path / "my.yaml", body, runtime()))]) == 3

    (line,) = [line for line in getattr(capsys.readouterr(), stream).splitlines() if "storageUri" in line]
    assert line.removeprefix("isvc: ") == (
        "missing: InferenceService first: spec.predictor.model.storageUri (not written, and the server of "
        "runtime fake reads /mnt/models, where nothing puts a model; write it, or an image that contains the model)"
    )


@pytest.mark.parametrize(("command", "stream"), [("validate", "out"), ("render", "err")])
def test_a_path_of_this_machine_is_noted_because_a_cluster_does_not_have_it(
    command: str, stream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(write_yaml(tmp_path / "my.yaml", service(uri="file:///home/me/m.pt"), runtime()))]) == 0

    assert getattr(capsys.readouterr(), stream).removeprefix("isvc: ") == (
        "note: InferenceService first: storageUri 'file:///home/me/m.pt' is a path in the container of the "
        "storage-initializer, which has no files of this machine; for a cluster, copy the model to a claim or a "
        "bucket, and name that\n"
    )


def test_a_service_without_a_model_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = service()
    model = body["spec"]["predictor"]["model"]
    model["storageURI"] = model.pop("storageUri")

    assert main(["run", str(write_yaml(tmp_path / "my.yaml", body, runtime()))]) == 2

    assert capsys.readouterr().err.splitlines() == [
        "isvc: no effect: InferenceService first: spec.predictor.model.storageURI (did you mean storageUri?)",
        "isvc: InferenceService first: spec.predictor.model.storageUri (not written, and the server of "
        "runtime fake reads /mnt/models, where nothing puts a model; write it, or an image that contains the model)",
    ]


def test_what_has_no_effect_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = service()
    body["spec"]["predictor"]["minReplica"] = 2

    assert main(["validate", str(write_yaml(tmp_path / "my.yaml", body, runtime()))]) == 3

    assert capsys.readouterr().out == (
        "no effect: InferenceService first: spec.predictor.minReplica (did you mean minReplicas?)\n"
    )


def test_files_may_lie_in_folders_and_come_from_the_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "services" / "deep"
    folder.mkdir(parents=True)
    unserved = service("from-a-folder")
    unserved["spec"]["predictor"]["model"] |= {"name": "mine", "modelFormat": {"name": "pytorch"}}
    write_yaml(folder / "my.yml", unserved)
    (folder / "notes.txt").write_text("no YAML: [")
    unserved["metadata"]["name"] = "from-stdin"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(yaml.safe_dump(unserved).encode())))

    assert main(["validate", str(tmp_path), "-"]) == 2

    errors = [line.split(": spec.")[0] for line in capsys.readouterr().out.splitlines()]
    assert errors == [
        f"error: {folder}/my.yml: InferenceService from-a-folder",
        "error: standard input: InferenceService from-stdin",
    ]


CONFIG_MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"


def test_json_of_something_else_is_left_out_of_a_folder_and_refused_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(CONFIG_MAP)
    (tmp_path / "sample.json").write_text('{"instances": [1]}')
    (tmp_path / "rows.json").write_text("[1]")

    assert main(["validate", str(tmp_path), "--no-services"]) == 0
    assert main(["validate", str(tmp_path / "sample.json"), "--no-services"]) == 2

    name = tmp_path / "sample.json"
    assert capsys.readouterr().out == (
        "ok: 0 services can be served as written\n"
        f"error: {name}: a document has no `kind`; is this a Kubernetes object?\n"
    )


@pytest.mark.parametrize("text", ['{"apiVersion": "v1"}', '{"kind": "Secret"}', "{"])
def test_json_of_a_folder_that_is_meant_as_an_object_is_checked(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CONFIG_MAP)
    (tmp_path / "b.json").write_text(text)

    assert main(["validate", str(tmp_path), "--no-services"]) == 2


@pytest.mark.parametrize(("kind", "meant"), [("InferenceServce", "InferenceService"), ("ConfigMaps", "ConfigMap")])
def test_a_kind_that_is_wrong_by_a_letter_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, meant: str
) -> None:
    file = write_yaml(tmp_path / "my.yaml", service(), runtime(), service("second") | {"kind": kind})

    assert main(["validate", str(file)]) == 2

    assert capsys.readouterr().out == f"error: {file}: there is no kind {kind}; did you mean {meant}?\n"


def test_files_without_a_service_are_an_error_unless_that_is_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(write_yaml(tmp_path / "my.yaml", runtime()))

    assert main(["validate", file]) == 2
    assert capsys.readouterr().out == (
        "error: the files contain no InferenceService; name the file that has it, or add --no-services\n"
    )
    assert main(["validate", file, "--no-services"]) == 0
    assert capsys.readouterr().out == "ok: 0 services can be served as written\n"


def test_an_empty_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(tmp_path)]) == 2

    assert capsys.readouterr().err == f"isvc: folder {tmp_path} has no file that ends with .yaml, .yml, .json\n"


def test_a_runtime_and_a_configuration_of_the_files_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = runtime()
    broken["spec"]["containers"][0]["env"] = [{"name": "PYTHONPATH", "value": "/mine"}]
    data = {"ingress": '{"domainTemplate": "{{ .Name }}_{{ .Namespace }}.test"}'}
    configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inferenceservice-config"}}
    first = write_yaml(tmp_path / "first.yaml", broken, service())
    second = write_yaml(tmp_path / "second.yaml", runtime(), service(), {**configuration, "data": data})

    assert main(["validate", str(first)]) == 2
    assert "ClusterServingRuntime fake: spec.containers[0].env: " in capsys.readouterr().out
    assert main(["validate", str(second)]) == 2
    assert "host 'first_default.test'" in capsys.readouterr().out
