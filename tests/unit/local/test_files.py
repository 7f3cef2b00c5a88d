"""Files that commands read: those that have no end, and those that are too large."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from isvc.commands import main
from isvc.limits import FILE_BYTES
from isvc.run.errors import UnusableInput
from isvc.run.files import read_files, read_runtimes

Captured = pytest.CaptureFixture[str]
LINE = f"has more than {FILE_BYTES} bytes; use a smaller one\n"


@pytest.mark.parametrize("command", ["validate", "render", "run", "diff"])
def test_a_file_without_an_end_is_not_kept(command: str, capsys: Captured) -> None:
    assert main([command, "/dev/zero"]) == 2

    assert capsys.readouterr().err == f"isvc: /dev/zero {LINE}"


def test_the_standard_input_is_bounded_too(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    endless = io.TextIOWrapper(io.BytesIO(b"#" * (FILE_BYTES + 1)))
    monkeypatch.setattr(sys, "stdin", endless)

    assert main(["validate", "-"]) == 2

    assert capsys.readouterr().err == f"isvc: standard input {LINE}"


def test_a_file_in_place_of_the_configurations_folder_is_named(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "ingress").write_text("{}")

    assert main(["validate", str(tmp_path / "ingress"), "--config-dir", str(tmp_path / "ingress")]) == 2

    assert f"configuration folder {tmp_path / 'ingress'} is not a folder" in capsys.readouterr().err


SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: bert}
spec: {predictor: {model: {modelFormat: {name: pytorch}, storageUri: pvc://bert}}}
"""


def test_a_folder_is_read_without_hidden_files_and_yaml_of_something_else(tmp_path: Path) -> None:
    for name, content in {
        "bert.yaml": SERVICE,
        "bert/model-config.yaml": "minWorkers: 1\nhandler:\n  topk: 5\n",
        "bert/sample.json": '{"instances": [1]}',
        ".github/workflows/ci.yml": "on: push\njobs: {}\n",
        ".ipynb_checkpoints/bert-checkpoint.yaml": SERVICE,
        ".pre-commit-config.yaml": "repos: []\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)

    assert [text.source for text in read_files([tmp_path])] == [str(tmp_path / "bert.yaml")]


@pytest.mark.parametrize(
    "content", ["kind: InferenceService", "- apiVersion: v1", "  Kind: a", '{"kind": "a"}', "spec: [", "metadata: {}"]
)
def test_what_is_meant_as_an_object_is_not_left_out_of_a_folder(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.yaml").write_text(content)

    assert [text.content for text in read_files([tmp_path])] == [content]


def test_text_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"kind: a\nvalue: caf\xe9\n")

    with pytest.raises(UnusableInput) as raised:
        read_files([file])

    assert str(raised.value) == f"{file}: line 2 is not UTF-8; save the file as UTF-8"


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.json"])
def test_runtimes_are_read_from_files_of_each_ending(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("kind: ServingRuntime")

    assert [text.source for text in read_runtimes(tmp_path)] == [str(tmp_path / name)]


def test_a_folder_without_runtimes_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput) as raised:
        read_runtimes(tmp_path)

    assert str(raised.value) == f"folder {tmp_path} has no file that ends with .yaml, .yml, .json"
