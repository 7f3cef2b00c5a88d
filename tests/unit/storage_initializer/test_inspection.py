"""What `isvc inspect` says of a source, and how little of it is read."""

from __future__ import annotations

import io
import json
import pickle
import random
import tarfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import pytest

from model_archive.limits import MAX_CHECKED, MAX_REQUIREMENTS
from model_archive.manifest import MANIFEST
from storage_initializer.inspection import Inspection, main
from storage_initializer.limits import MAX_INSPECTED
from tests.support.memory_source import ONCE, MemorySource
from tests.support.model_folder import manifest, read_tree, write_files, write_mar, write_tar

Captured = pytest.CaptureFixture[str]
BERT = {
    "path": "model-store/bert-model.mar",
    "served": True,
    "model": "bert-model",
    "version": "1.0",
    "handler": "handler.py",
    "runtime": "python",
    "requirements": [],
    "files": 2,
    "problems": [],
}


def inspected(files: dict[str, bytes], **lies: Any) -> dict[str, Any]:
    source = MemorySource(files, **lies)
    return Inspection(source, ONCE, Path("/nonexistent")).document(source.list_files())


def mar(tmp_path: Path, content: Any = None, files: dict[str, bytes] | None = None) -> bytes:
    return write_mar(tmp_path / "made.mar", content, files).read_bytes()


def zipped(*names: str) -> bytes:
    """A zip file with these entries, each a pickle."""
    content = io.BytesIO()
    with ZipFile(content, "w") as file:
        for name in names:
            file.writestr(name, pickle.dumps({}, protocol=2))
    return content.getvalue()


EMPTY_GRAPH = b"\x08\x08\x3a\0"  # an ONNX model
SCRIPT = zipped("net/constants.pkl", "net/code/net.py")


def without_sizes(archive: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in archive.items() if name not in ("bytes", "unpackedBytes")}


# --- what is there ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert.mar", "bert.tar.gz"])
def test_an_archive_alone(tmp_path: Path, capsys: Captured, name: str) -> None:
    described = manifest(modelName="bert", requirementsFile="r.txt", modelFile="m.py", serializedFile="b.pt")
    files = {"handler.py": b"", "r.txt": b"six==1.17 # why\n\n# no\nnumpy\n", "m.py": b"", "b.pt": bytes(100)}
    write_mar(tmp_path / "bert.mar", described, files)
    with ZipFile(tmp_path / "bert.mar") as archive, tarfile.open(tmp_path / "bert.tar.gz", "w:gz") as packed:
        for entry in archive.namelist():
            info = tarfile.TarInfo(f"bert/{entry}")
            info.size = len(archive.read(entry))
            packed.addfile(info, io.BytesIO(archive.read(entry)))

    assert main([str(tmp_path / name)], {}) == 0

    (found,) = json.loads(capsys.readouterr().out)["archives"]
    assert without_sizes(found) == {
        **BERT, "path": name, "model": "bert", "modelFile": "m.py", "serializedFile": "b.pt",
        "requirementsFile": "r.txt", "requirements": ["six==1.17", "numpy"], "files": 5,
    }  # fmt: skip


@pytest.mark.parametrize("place", ["", "bert/", "model-store/bert/", "model-store/bert/bert/"])
def test_an_unpacked_archive(tmp_path: Path, place: str) -> None:
    described = manifest(requirementsFile="r.txt")
    files = {MANIFEST: json.dumps(described).encode(), "handler.py": b"", "r.txt": b"six\n"}

    (found,) = inspected({f"{place}{name}": content for name, content in files.items()})["archives"]

    path = place.rstrip("/") or "."
    assert without_sizes(found) == {
        **BERT, "path": path, "requirementsFile": "r.txt", "requirements": ["six"], "files": 3,
    }  # fmt: skip


def test_of_several_tars_at_the_top_those_with_a_manifest_are_archives(tmp_path: Path) -> None:
    bert = write_tar(tmp_path / "bert.tar.gz", tarfile.TarInfo("bert/handler.py")).read_bytes()
    with tarfile.open(tmp_path / "data.tar.gz", "w:gz") as packed:
        packed.addfile(tarfile.TarInfo("data/rows.csv"))
    data = (tmp_path / "data.tar.gz").read_bytes()

    found = inspected({"bert.tar.gz": bert, "data.tar.gz": data, "deep/bert.tar.gz": bert})

    assert [archive["path"] for archive in found["archives"]] == ["bert.tar.gz"]
    assert found["problems"] == []


def test_model_files_without_an_archive() -> None:
    weights = zipped("net/data.pkl")
    files = {"model.onnx": EMPTY_GRAPH, "model.pt": SCRIPT, "weights.pt": weights, "deep/other.pt": b""}
    found = inspected({**files, "text.onnx": b"hello"})

    assert found["models"] == [
        {"path": "model.onnx", "bytes": 4, "format": "ONNX"},
        {"path": "model.pt", "bytes": len(SCRIPT), "format": "TorchScript"},
        {"path": "weights.pt", "bytes": len(weights), "format": None},
        {"path": "text.onnx", "bytes": 5, "format": None},
    ]
    problem, text = found["problems"]
    assert text == (
        "text.onnx: is not an ONNX model; export it again, such as by torch.onnx.export, or copy the right file"
    )
    assert problem.startswith("weights.pt: holds weights only (a state dict), and needs its class: package it")
    assert found["archives"] == []


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (b"", None),
        (b"batchSize: 32\ninputs: [{name: x, datatype: FP32, shape: [-1]}]", None),
        (b"inputs:\noutputs: 3\nbatchSize: x\n1: 2", None),  # not judged
        (b"batchsize: 32", "there is no setting 'batchsize', only inputs, outputs, batchSize, maxBatchDelay"),
        (b"outputs: [{name: x, datatype: FLOAT, shape: [-1]}]", "there is no datatype 'FLOAT', only BOOL, UINT8, "
         "UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BF16, BYTES"),
        (b"a: [1", "it is not YAML (line 1: expected ',' or ']', but got '<stream end>')"),
        (b"- 1", "it is not a mapping of names to values"),
        (b"#" * MAX_CHECKED + b"\na: [1", None),
    ],
)  # fmt: skip
def test_the_settings_of_a_model_file(settings: bytes, problem: str | None) -> None:
    found = inspected({"model.pt": SCRIPT, "model-config.yaml": settings})

    assert found["problems"] == ([f"model-config.yaml: {problem}; correct it"] if problem else [])


TENSORS = b"inputs: [{name: x, datatype: FP32, shape: [-1, 3]}]\noutputs: [{name: y, datatype: INT64, shape: []}]"
INPUTS = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]}
OUTPUTS = {"outputs": [{"name": "y", "datatype": "INT64", "shape": []}]}


@pytest.mark.parametrize(
    ("file", "content", "tensors", "problem"),
    [
        ("model.pt", SCRIPT, INPUTS | OUTPUTS, None),
        ("model.pt2", zipped("net/data/aotinductor/model/net.so"), INPUTS | OUTPUTS, None),
        ("model.pt2", zipped("net/models/model.json"), OUTPUTS, "model.pt2 describes its inputs itself"),
        ("model.onnx", EMPTY_GRAPH, {}, "model.onnx describes its inputs and outputs itself"),
    ],
)
def test_inputs_and_outputs_that_are_declared_beside_a_model_file(
    file: str, content: bytes, tensors: dict[str, Any], problem: str | None
) -> None:
    found = inspected({file: content, "model-config.yaml": TENSORS})

    (model,) = found["models"]
    assert {name: model[name] for name in ("inputs", "outputs") if name in model} == tensors
    assert found["problems"] == ([f"model-config.yaml: {problem}; remove them there"] if problem else [])


@pytest.mark.parametrize(
    "tensor", [b"{name: 3, datatype: FP32, shape: []}", b"{name: x, shape: []}", b"x",
               b"{name: x, datatype: FP32, shape: [x]}", b"{name: x, datatype: FP32, shape: [true]}"],
)  # fmt: skip
def test_what_no_server_takes_for_a_tensor_is_not_shown(tensor: bytes) -> None:
    (model,) = inspected({"model.pt": SCRIPT, "model-config.yaml": b"inputs: [" + tensor + b"]"})["models"]

    assert model == {"path": "model.pt", "bytes": len(SCRIPT), "format": "TorchScript"}


def test_hidden_files_as_macos_writes_them_are_no_models() -> None:
    found = inspected({"model.pt": SCRIPT, "._model.pt": b"\0"})

    assert ([model["path"] for model in found["models"]], found["problems"]) == (["model.pt"], [])


@pytest.mark.parametrize("store", ["", " "])
def test_an_empty_model_store_is_the_usual_one(tmp_path: Path, store: str) -> None:
    found = inspected(
        {
            "config/config.properties": f"model_store={store}\nload_models=a.mar".encode(),
            "model-store/a.mar": mar(tmp_path),
        }
    )

    assert [(archive["path"], archive["served"]) for archive in found["archives"]] == [("model-store/a.mar", True)]
    assert found["problems"] == []


def test_the_store_that_the_configuration_names(tmp_path: Path) -> None:
    found = inspected(
        {"config/config.properties": b"model_store=/mnt/models/mine\nload_models=all", "mine/a.mar": mar(tmp_path)}
    )

    assert [(archive["path"], archive["served"]) for archive in found["archives"]] == [("mine/a.mar", True)]
    assert found["problems"] == []


# --- what is wrong with it -------------------------------------------------------------------------------


CONFIG = "config/config.properties"


@pytest.mark.parametrize(
    ("settings", "served", "problem"),
    [
        ("load_models=a.mar", {"a.mar"}, None),
        ("load_models=a.mar,b.mra", {"a.mar"}, "names b.mra (load_models), but model-store does not hold it; did you "
         "mean b.mar?"),
        ("load_models=c.mar", set(), "names c.mar (load_models), but model-store does not hold it; did you mean "
         "b.mar?"),
        ("model_snapshot={", set(), "model_snapshot is not valid JSON"),
    ],
)  # fmt: skip
def test_what_a_configuration_serves_and_asks_for_in_vain(
    tmp_path: Path, settings: str, served: set[str], problem: str | None
) -> None:
    archive = mar(tmp_path)

    found = inspected({CONFIG: settings.encode(), "model-store/a.mar": archive, "model-store/b.mar": archive})

    assert {Path(one["path"]).name for one in found["archives"] if one["served"]} == served
    assert [text.startswith(f"{CONFIG}: ") or text.startswith(f"{CONFIG} ") for text in found["problems"]] == (
        [True] if problem else []
    )
    assert problem is None or problem in found["problems"][0]


def test_a_configuration_elsewhere_has_no_effect(tmp_path: Path) -> None:
    found = inspected({"config.properties": b"", "model-store/a.mar": mar(tmp_path)})

    assert found["configuration"] is None
    assert found["problems"] == ["config.properties has no effect; move it to config/config.properties"]


def test_settings_that_are_endless_are_told_by_their_names(tmp_path: Path, capsys: Captured) -> None:
    bomb = "".join(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" for n in range(1, 99))
    text = f"b0: &b0 [1]\n{bomb}own: &own {{own: *own}}\nday: 2024-01-01\nbatchSize: 2\n"
    write_files(tmp_path, {"handler.py": _HANDLER, "model-config.yaml": text.encode()})

    assert main([str(tmp_path)], {}) == 0

    (found,) = json.loads(capsys.readouterr().out)["archives"]
    nested = {f"b{n}": [] for n in range(99)}
    assert found["settings"] == {**nested, "own": {}, "day": "2024-01-01", "batchSize": 2}


def test_several_weights_beside_a_handler_are_its_own() -> None:
    (found,) = inspected({"handler.py": b"def handle(data, context): return data\n", "a.pt": b"", "b.pt": b""})[
        "archives"
    ]

    assert "serializedFile" not in found
    assert found["problems"] == []


@pytest.mark.parametrize("name", ["handler.py", MANIFEST])
def test_the_configuration_beside_a_handler_is_read_there(name: str) -> None:
    handler = {"handler.py": b"def handle(data, context): return data\n", MANIFEST: json.dumps(manifest()).encode()}
    files = {"handler.py": handler["handler.py"], name: handler[name]}

    found = inspected(
        {**files, "config.properties": b"install_py_dep_per_model=true\nload_models=a.mar", "in/config.properties": b""}
    )

    assert found["configuration"] == {"install_py_dep_per_model": "true"}
    assert [(one["path"], one["served"]) for one in found["archives"]] == [(".", True)]
    assert found["problems"] == []


def test_the_configuration_beside_a_handler_is_not_read_where_a_model_store_is(tmp_path: Path) -> None:
    files = {"handler.py": b"", "config.properties": b"", "model-store/a.mar": mar(tmp_path)}

    found = inspected(files)

    assert found["configuration"] is None
    assert found["problems"] == ["config.properties has no effect; move it to config/config.properties"]


def test_a_broken_configuration_beside_a_handler_is_named() -> None:
    found = inspected({"handler.py": b"def handle(data, context): return data\n", "config.properties": b"a=\\u00g0"})

    assert found["problems"] == [
        "config.properties is not a Java properties file (Invalid \\u escape sequence: \\u00g0); correct it"
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"handler": "gone.py:run"}, "its handler 'gone.py:run' is neither in it nor one of TorchServe's own"),
        ({"serializedFile": "w.pt"}, "its model.serializedFile, 'w.pt', is not in it; add it, and pack it again"),
        ({"requirementsFile": "r.txt"}, "its model.requirementsFile, 'r.txt', is not in it"),
        ({"handler": "image_classifier"}, "TorchServe's image_classifier has no weights to load"),
    ],
)  # fmt: skip
def test_what_a_manifest_names_in_vain(tmp_path: Path, fields: dict[str, str], problem: str) -> None:
    found = inspected({"a.mar": mar(tmp_path, manifest(**fields))})

    assert found["problems"] == found["archives"][0]["problems"]
    assert found["problems"][0].startswith(f"a.mar: {problem}")


def test_no_runtime_here_has_cpp(tmp_path: Path) -> None:
    found = inspected({"a.mar": mar(tmp_path, manifest() | {"runtime": "LSP"})})

    assert found["problems"] == ["a.mar: no runtime here serves LSP; use python or python3"]


def test_a_source_without_a_model_is_said_to_have_none() -> None:
    assert inspected({"notes.txt": b""})["problems"] == [
        "there is no model in it: no handler.py, and no .pt, .pth, .ts, .pt2, .onnx, .mar, .model, .tar.gz at its top"
    ]


@pytest.mark.parametrize("name", ["model.zip", "model.tgz", "model.tar.gz"])
def test_the_only_file_that_a_download_unpacks_is_said_not_to_be_looked_into(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / "packed", "w:gz") as packed:
        packed.addfile(tarfile.TarInfo("net.onnx"))

    found = inspected({name: (tmp_path / "packed").read_bytes()})

    assert (found["archives"], found["problems"]) == (
        [], [f"{name} is unpacked when it is downloaded, and is not looked into; unpack it, and name the folder"],
    )  # fmt: skip


@pytest.mark.parametrize("size", [64, -8], ids=["before its manifest", "behind it"])
@pytest.mark.parametrize("others", [{}, {"notes.txt": b""}], ids=["alone", "beside a file"])
def test_a_truncated_tar_is_said_to_be_so(tmp_path: Path, size: int, others: dict[str, bytes]) -> None:
    content = write_tar(tmp_path / "a.tar.gz", tarfile.TarInfo("a/handler.py")).read_bytes()

    found = inspected({"a.tar.gz": content[:size], **others})

    (archive,) = found["archives"]
    assert found["problems"] == archive["problems"]
    assert found["problems"][0].startswith("a.tar.gz is truncated or not a tar.gz (")


@pytest.mark.parametrize("file", ["deep/model/handler.py", "deep/model/net.onnx", "deep/model/net.mar"])
def test_of_a_source_with_a_model_below_its_top_the_folder_is_named(file: str) -> None:
    assert inspected({"notes.txt": b"", file: b""})["problems"] == [
        "there is no model in it: no handler.py, and no .pt, .pth, .ts, .pt2, .onnx, .mar, .model, .tar.gz at its top; "
        "there is one in its folder 'deep/model', which is the one to name"
    ]


def test_what_is_not_there_is_the_initializers_error(tmp_path: Path, capsys: Captured) -> None:
    assert main([str(tmp_path / "gone")], {}) == 5

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"{tmp_path}/gone: there is no gone in {tmp_path}; nothing is there\n")


# --- hostile, and large ----------------------------------------------------------------------------------


def test_only_so_many_archives_are_looked_into(tmp_path: Path) -> None:
    archive = mar(tmp_path)

    found = inspected({f"{number:03}.mar": archive for number in range(MAX_INSPECTED + 1)})

    assert len(found["archives"]) == MAX_INSPECTED
    assert found["problems"] == [f"there are {MAX_INSPECTED + 1} archives, of which {MAX_INSPECTED} were looked into"]


def test_of_a_large_archive_only_the_directory_and_the_manifest_are_read(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "large.mar", "w", ZIP_STORED) as archive:
        for name in ("a.pt", "b.pt"):
            archive.writestr(name, random.Random(0).randbytes(10 << 20))
        archive.writestr("handler.py", b"")
        archive.writestr(MANIFEST, json.dumps(manifest(serializedFile="a.pt")))
    parts: list[int] = []

    found = inspected(
        {"large.mar": (tmp_path / "large.mar").read_bytes()}, on_open=lambda _, start, stop: parts.append(stop - start)
    )

    assert (found["problems"], found["archives"][0]["unpackedBytes"] > 20 << 20) == ([], True)
    assert sum(parts) < 2 << 20


def test_nothing_is_written(tmp_path: Path, capsys: Captured) -> None:
    write_files(tmp_path / "volume", {"a.mar": mar(tmp_path)})
    before = read_tree(tmp_path)

    assert main([str(tmp_path / "volume")], {}) == 0

    assert read_tree(tmp_path) == before
    assert capsys.readouterr().err == ""


def test_long_requirements_are_cut(tmp_path: Path) -> None:
    lines = b"six\n" * MAX_REQUIREMENTS
    content = manifest(requirementsFile="r.txt")

    packed = inspected({"a.mar": mar(tmp_path, content, {"handler.py": b"", "r.txt": lines})})["archives"]
    unpacked = inspected({MANIFEST: json.dumps(content).encode(), "handler.py": b"", "r.txt": lines})["archives"]

    assert [len(archive["requirements"]) for archive in (*packed, *unpacked)] == [MAX_REQUIREMENTS // 4] * 2


# --- what is in its files --------------------------------------------------------------------------------

_HANDLER = b"def handle(data, context): return data\n"


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("handler.py", b"def handle(:\n", "its handler 'handler.py' is not Python that compiles: line 1: "),
        ("handler.py", b"x = '\xff'\n", "its handler 'handler.py' is not Python that compiles: "),
        ("handler.py", b"(" * 100_000, "its handler 'handler.py' is not Python that compiles: "),
        ("c.yaml", b"a: [1", "its settings, 'c.yaml', are not YAML (line 1: "),
        ("c.yaml", b"- 1", "its settings, 'c.yaml', are not a mapping of names to values; "),
        ("c.yaml", b"\x00", "its settings, 'c.yaml', are not YAML; "),
        ("c.yaml", b"[" * 1_000, "its settings, 'c.yaml', are not YAML"),
        ("r.txt", b"\x89PNG\xff", "its requirements, 'r.txt', are not text; "),
        ("r.txt", b"six\0", "its requirements, 'r.txt', are not text; "),
    ],
    ids=["syntax", "encoding", "nesting", "yaml", "list", "control", "deep", "binary", "null"],
)
def test_what_a_server_could_not_read_is_a_problem_packed_or_not(
    tmp_path: Path, file: str, content: bytes, words: str
) -> None:
    files = {"handler.py": _HANDLER, "c.yaml": b"minWorkers: 1", "r.txt": b"six\n", file: content}
    model = manifest(configFile="c.yaml", requirementsFile="r.txt")
    packed = mar(tmp_path, model, files)
    unpacked = {f"a/{name}": data for name, data in {**files, MANIFEST: json.dumps(model).encode()}.items()}

    for found, name in ((inspected({"a.mar": packed}), "a.mar"), (inspected(unpacked), "a")):
        (problem,) = found["problems"]
        assert problem.startswith(f"{name}: {words}")


def test_what_is_too_long_is_not_checked(tmp_path: Path) -> None:
    files = {"handler.py": b"(" * (MAX_CHECKED + 1), "c.yaml": b"[" * (MAX_CHECKED + 1)}

    assert inspected({"a.mar": mar(tmp_path, manifest(configFile="c.yaml"), files)})["problems"] == []


def test_a_handler_is_not_run_and_its_warnings_are_not_shown(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    handler = b"import sys\nsys.exit('ran')\nx = '\\d'\n" + _HANDLER

    assert inspected({"a.mar": mar(tmp_path, None, {"handler.py": handler})})["problems"] == []
    assert not recwarn.list


def test_a_model_file_beside_an_archive_is_not_served(tmp_path: Path) -> None:
    found = inspected({"a.mar": mar(tmp_path, None, {"handler.py": _HANDLER}), "net.onnx": b"model"})

    assert (found["models"], found["problems"], found["notes"]) == (
        [], [], ["not served: net.onnx: beside archives, only those are; move these into a folder of their own"],
    )  # fmt: skip


def test_a_file_beside_a_handler_is_no_model_by_itself() -> None:
    found = inspected({"handler.py": _HANDLER, "weights.pt": b"weights"})

    assert (found["models"], found["problems"]) == ([], [])


# --- a folder with a handler, packed by nobody -------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "entry"),
    [
        (b"class A:\n    def initialize(self, context): ...\n    def handle(self, data, context): ...\n", "class A"),
        (_HANDLER, "function handle"),
        (b"from others import *\n", None),
    ],
)
def test_a_folder_with_a_handler_is_told_as_it_is_served(handler: bytes, entry: str | None) -> None:
    files = {"handler.py": handler, "model.py": b"class Net: ...", "w.pt": b"12", "requirements.txt": b"six\n",
             "model-config.yaml": b"minWorkers: 1", ".git/x.pt": b""}  # fmt: skip

    found = inspected(files)

    assert (found["models"], found["problems"]) == ([], [])
    assert [without_sizes(one) for one in found["archives"]] == [
        {
            "path": ".", "served": True, "version": "1.0", "handler": "handler.py", "runtime": "python",
            "modelFile": "model.py", "serializedFile": "w.pt", "requirementsFile": "requirements.txt",
            "configFile": "model-config.yaml", "settings": {"minWorkers": 1},
            **({"entry": entry} if entry else {}), "requirements": ["six"],
            "files": 6, "problems": [],
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"handler.py": b"x = $"}, "its handler 'handler.py' is not Python that compiles: line 1: invalid "
         "syntax; correct it"),
        ({"handler.py": b"class A: ...\nclass B: ..."}, "its handler 'handler.py' has the classes A, B, and no "
         "function handle; write one class, or a function `def handle(data, context)`, which is called once with None "
         "as data, to load"),
        ({"model-config.yaml": b"a: [1"}, "its settings, 'model-config.yaml', are not YAML (line 1: expected ',' or "
         "']', but got '<stream end>'); correct them"),
        ({"handler.py": b"from ts.torch_handler.base_handler import BaseHandler\nclass A(BaseHandler): ...",
          "model.py": b"", "a.pt": b"", "b.pt": b""}, "TorchServe's BaseHandler loads one of a.pt, b.pt; move the "
         "others into a folder below the handler, or name one: isvc pack FOLDER --serialized-file a.pt"),
        ({"handler.py": b"from ts.torch_handler.base_handler import BaseHandler\nclass A(BaseHandler): ..."},
         "TorchServe's BaseHandler has no weights to load; add it"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_such_a_folder(files: dict[str, bytes], problem: str) -> None:
    found = inspected({"handler.py": _HANDLER, **files})

    assert (found["problems"], found["archives"][0]["problems"]) == ([problem], [problem])


def test_of_weights_the_file_with_their_class_is_named_as_where_they_are_served(
    tmp_path: Path, capsys: Captured
) -> None:
    write_files(tmp_path, {"w.pt": zipped("w/data.pkl"), "net.py": b"from torch import nn\nclass Net(nn.Module): ..."})
    files = f"--model-file {tmp_path}/net.py --serialized-file {tmp_path}/w.pt; then isvc run NAME.mar)"

    for source in (tmp_path, tmp_path / "w.pt"):
        assert main([str(source)], {}) == 0
        (problem,) = json.loads(capsys.readouterr().out)["problems"]
        assert problem.endswith(files)
