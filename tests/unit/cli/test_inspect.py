"""`isvc inspect`: its words and its errors. What is found is in tests/unit/storage_initializer/test_inspection.py."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from onnx import TensorProto, helper

from isvc.commands import main
from tests.support.model_folder import manifest, write_mar, write_volume

pytestmark = pytest.mark.process
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_volume(tmp_path / "volume", "model_store=model-store\nload_models=bert-model.mar\n")
    return tmp_path / "volume"


@pytest.mark.usefixtures("volume")
def test_a_folder_is_told_in_words(capsys: Captured) -> None:
    assert main(["inspect", "volume"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "config/config.properties: model_store, load_models"
    assert [line.split() for line in lines[3:]] == [
        ["ARCHIVE", "MODEL", "VERSION", "HANDLER", "SIZE", "UNPACKED", "SERVED", "REQUIREMENTS"],
        ["model-store/bert-model.mar", "bert-model", "1.0", "handler.py", "398", "B", "211", "B", "yes", "none"],
    ]


def test_a_folder_with_a_handler_is_told_in_words(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "handler.py").write_text("def handle(data, context): return data\n")
    (tmp_path / "weights.pt").touch()
    (tmp_path / "requirements.txt").write_text("six\nnumpy\n")
    (tmp_path / "config.properties").write_text("install_py_dep_per_model=true\n")

    assert main(["inspect", str(tmp_path)]) == 0

    assert capsys.readouterr().out.splitlines()[1:] == [
        "config.properties: install_py_dep_per_model",
        "",
        "FILE               FOUND AS",
        "handler.py         function handle",
        "weights.pt         weights",
        "requirements.txt   requirements: six, numpy",
    ]


def test_of_a_model_that_says_it_the_tensors_are_told(tmp_path: Path, capsys: Captured) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())

    assert main(["inspect", str(tmp_path / "m.onnx")]) == 0

    assert capsys.readouterr().out.splitlines()[5:] == [
        "MODEL FILE           TENSOR   DATATYPE   SHAPE",
        "m.onnx       takes   x        FP32       [-1, 3]",
        "m.onnx       gives   y        FP32       [-1, 3]",
    ]


def test_the_tensors_that_are_declared_beside_a_model_are_told(tmp_path: Path, capsys: Captured) -> None:
    with ZipFile(tmp_path / "m.pt", "w") as file:
        file.writestr("net/constants.pkl", "")
        file.writestr("net/code/net.py", "")
    (tmp_path / "model-config.yaml").write_text("inputs: [{name: x, datatype: FP32, shape: [-1, 3]}]")

    assert main(["inspect", str(tmp_path)]) == 0

    assert capsys.readouterr().out.splitlines()[5:] == [
        "MODEL FILE           TENSOR   DATATYPE   SHAPE",
        "m.pt         takes   x        FP32       [-1, 3]",
    ]


@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_what_an_archive_says_of_itself_is_inert(tmp_path: Path, output: str, capsys: Captured) -> None:
    hostile = "\x1b[31m\x9b31m\u202e\r\nisvc: fine"
    write_mar(tmp_path / "a.mar", manifest(modelName=hostile, handler=f"{hostile}.py", requirementsFile=hostile))

    assert main(["inspect", str(tmp_path / "a.mar"), "--output", output]) == 1

    printed = capsys.readouterr().out
    assert [character for character in printed if not character.isprintable() and character != "\n"] == []
    assert "\nisvc: fine" not in printed


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("gone", 2, "gone does not exist; name an archive, a folder or a URI"),
        ("pvc://claim", 2, "pvc://claim is a claim of a cluster; name a folder with a copy of it"),
        ("ftp://host/x", 2, "ftp:// is not a known scheme"),
    ],
)
def test_a_source_that_cannot_be_read(
    source: str, code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["inspect", source]) == code

    printed = capsys.readouterr()
    assert (printed.out, message in printed.err, printed.err.count("\n")) == ("", True, 1), printed.err
