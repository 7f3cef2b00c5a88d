"""`isvc inspect`: its words and its errors. What is found is in tests/unit/storage_initializer/test_inspection.py."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from onnx import TensorProto, helper

from isvc.commands import main
from isvc.commands.settings import of_one_runtime, without_effect
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


def problems(capsys: Captured) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    return [line.removeprefix("problem: ") for line in lines if line.startswith("problem: ")]


SETTINGS = b'minWorkers: "2"\nbatchsize: 8\nmaxBatchDelay: abc\nreleased: 2024-01-01\n'
WITHOUT_EFFECT = [
    'minWorkers: "2" has no effect, in TorchServe either; write a whole number from 0 to 2147483647, without quotes',
    "maxBatchDelay abc has no effect, in TorchServe either; write a whole number from 0 to 2147483647",
    "batchsize is left to the handler; did you mean batchSize?",
]


def test_settings_of_a_folder_that_the_server_warns_of_are_problems(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "handler.py").write_text("def handle(data, context): return data\n")
    (tmp_path / "model-config.yaml").write_bytes(SETTINGS)
    (tmp_path / "config.properties").write_text("job_queue_sise=3\ninference_address=http://0.0.0.0:8085\n")

    assert main(["inspect", str(tmp_path)]) == 1

    assert problems(capsys) == [
        "config.properties: job_queue_sise: no setting of TorchServe 0.12; did you mean job_queue_size?",
        *(f"model-config.yaml: {line}" for line in WITHOUT_EFFECT),
    ]


def test_settings_that_both_servers_warn_of_are_problems_of_a_store(volume: Path, capsys: Captured) -> None:
    snapshot = '{"models": {"m": {"1.0": {"marName": "m.mar", "batchsize": 4}}}}'
    (volume / "config/config.properties").write_text(f"load_models=m.mar\nmodel_snapshot={snapshot}\n")
    files = {"handler.py": b"def handle(data, context): return data\n", "c.yaml": SETTINGS}
    write_mar(volume / "model-store/m.mar", manifest(modelName="m", configFile="c.yaml"), files)

    assert main(["inspect", "volume"]) == 1

    assert problems(capsys) == [
        "config.properties: load_models has no effect beside model_snapshot; remove one of them",
        "model_snapshot in config.properties: model m, version 1.0: batchsize: no parameter of TorchServe 0.12",
        *(f"model-store/m.mar: {line}" for line in WITHOUT_EFFECT),
    ]


def test_without_the_servers_packages_nothing_is_said_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def said() -> int:
        given = {"no_such": "1", "netty_client_threads": "1"}
        return len(without_effect(given, {}, is_folder=False)) + len(of_one_runtime(given, (), is_folder=False))

    assert said() == 4

    monkeypatch.setitem(sys.modules, "data_plane", None)

    assert said() == 0


def test_settings_that_a_server_refuses_are_problems(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "handler.py").write_text("def handle(data, context): return data\n")
    (tmp_path / "config.properties").write_text("job_queue_size=many\n")

    assert main(["inspect", str(tmp_path)]) == 1

    assert problems(capsys) == ["config.properties: job_queue_size is 'many'; write a whole number, 1 or more"]


def test_a_value_that_a_server_refuses_is_told_with_its_setting_and_model(volume: Path, capsys: Captured) -> None:
    models = '{"a": {"1.0": {"batchSize": 4}}, "b": {"1.0": {"batchSize": "eight"}}}'
    (volume / "config/config.properties").write_text(f"load_models=all\nmodels={models}\n")

    assert main(["inspect", "volume"]) == 1

    where = "models in config.properties: model b, version 1.0"
    assert problems(capsys) == [f"{where}: batchSize is 'eight'; write a whole number, 1 or more"]


def test_what_a_server_refuses_of_an_archive_names_it_once(volume: Path, capsys: Captured) -> None:
    files = {"handler.py": b"def handle(data, context): return data\n", "c.yaml": b"asyncCommunication: true\n"}
    write_mar(volume / "model-store/bert-model.mar", manifest(configFile="c.yaml"), files)

    assert main(["inspect", "volume"]) == 1

    (problem,) = problems(capsys)
    assert problem.startswith("model-store/bert-model.mar asks for asyncCommunication: True, which is not supported; ")


def test_settings_that_one_server_does_not_use_are_notes(volume: Path, capsys: Captured) -> None:
    (volume / "config/config.properties").write_text("number_of_netty_threads=4\nplugins_path=/p\n")

    assert main(["inspect", "volume"]) == 0

    assert capsys.readouterr().out.splitlines()[-2:] == [
        "note: isvc-mar: config.properties: number_of_netty_threads 4 has no effect: one event loop takes all "
        "requests; remove it",
        "note: isvc-mar: config.properties: plugins_path /p has no effect: plugins are Java's; serve with the runtime "
        "kserve-torchserve",
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
