"""ONNX files, run by onnxruntime. The graphs are made by onnx's own helpers, so torch has no part in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from data_plane.errors import UnprocessableInput
from data_plane.model_server import libraries
from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.tensors import Tensor
from mar_runtime.engines import CannotLoad, load_engine

BFLOAT16, FLOAT, STRING, INT64 = TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.STRING, TensorProto.INT64
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)

Port = tuple[str, int, list[int | str | None]]


def save(path: Path, operator: str, inputs: list[Port], outputs: list[Port], domain: str = "") -> Path:
    """A graph of one operator."""
    node = helper.make_node(operator, [port[0] for port in inputs], [port[0] for port in outputs], domain=domain)
    graph = helper.make_graph(
        [node],
        "one-operator",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
    )
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_a_model_says_what_it_takes_and_gives_and_answers_so(tmp_path: Path) -> None:
    shape: list[int | str | None] = ["batch", 3]
    path = save(tmp_path / "m.onnx", "Add", [("a", FLOAT, shape), ("b", FLOAT, [None, 3])], [("sum", FLOAT, shape)])
    engine = load_engine(path, "cpu", 1)

    assert engine.platform == "onnx_onnxv1"
    assert engine.inputs == (TensorMetadata("a", "FP32", (-1, 3)), TensorMetadata("b", "FP32", (-1, 3)))
    assert engine.outputs == (TensorMetadata("sum", "FP32", (-1, 3)),)
    assert engine.run({"b": ROWS, "a": ROWS})["sum"].tolist() == [[0, 2, 4], [6, 8, 10]]


def test_text_goes_in_and_comes_out_as_bytes(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", "Identity", [("text", STRING, ["batch"])], [("same", STRING, ["batch"])])
    words = np.array(["føtex".encode(), b""], dtype=object)

    assert load_engine(path, "cpu", 1).run({"text": words})["same"].tolist() == ["føtex".encode(), b""]


def test_bf16_goes_in_and_comes_out_beside_other_datatypes(tmp_path: Path) -> None:
    halves, wide = ("halves", BFLOAT16, ["batch", 2]), ("wide", FLOAT, ["batch", 2])
    nodes = [
        helper.make_node("Cast", ["halves"], ["widened"], to=FLOAT),
        helper.make_node("Add", ["widened", "wide"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["sum of halves"], to=BFLOAT16),
    ]
    inputs = [helper.make_tensor_value_info(*port) for port in (halves, wide)]
    outputs = [
        helper.make_tensor_value_info(name, kind, ["batch", 2])
        for name, kind in (("sum", FLOAT), ("sum of halves", BFLOAT16))
    ]
    graph = helper.make_graph(nodes, "bf16", inputs, outputs)
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    engine = load_engine(tmp_path / "m.onnx", "cpu", 1)

    given = {"halves": np.array([[1, -2], [0.5, 4]], np.float32), "wide": np.full((2, 2), 2**-8, np.float32)}
    results = {name: Tensor.from_numpy(name, array) for name, array in engine.run(given).items()}

    assert [(one.name, one.datatype) for one in (*engine.inputs, *engine.outputs)] == [
        ("halves", "BF16"), ("wide", "FP32"), ("sum", "FP32"), ("sum of halves", "BF16")
    ]  # fmt: skip
    assert (results["sum"].datatype, results["sum"].data.tolist()) == (
        "FP32",
        [[1.00390625, -1.99609375], [0.50390625, 4.00390625]],
    )
    assert (results["sum of halves"].datatype, results["sum of halves"].data.tolist()) == (
        "BF16",
        [[1, -2], [0.50390625, 4]],
    )


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", "Identity", [("text", STRING, ["batch"])], [("same", STRING, ["batch"])])

    with pytest.raises(
        UnprocessableInput, match=r'^Input "text" holds bytes that are not UTF-8; the model takes text.$'
    ):
        load_engine(path, "cpu", 1).run({"text": np.array([b"\xff"], dtype=object)})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.astype(np.float64), '^Input "a" is FP64; the model takes FP32.$'),
        (np.zeros((2, 5), np.float32), r'^Input "a" has the shape \[2, 5\]; the model takes \[-1, 3\]'),
    ],
    ids=["datatype", "shape"],
)
def test_what_the_model_does_not_take_is_refused(tmp_path: Path, rows: np.ndarray, message: str) -> None:
    path = save(tmp_path / "m.onnx", "Neg", [("a", FLOAT, ["batch", 3])], [("b", FLOAT, ["batch", 3])])

    with pytest.raises(UnprocessableInput, match=message):
        load_engine(path, "cpu", 1).run({"a": rows})


def test_values_that_an_operator_does_not_take_are_refused_with_its_reason(tmp_path: Path) -> None:
    inputs: list[Port] = [("rows", FLOAT, ["batch", 3]), ("index", INT64, ["batch"])]
    path = save(tmp_path / "m.onnx", "Gather", inputs, [("found", FLOAT, ["batch", 3])])

    with pytest.raises(UnprocessableInput, match=r"^The model does not take these inputs: .*out of data bounds"):
        load_engine(path, "cpu", 1).run({"rows": ROWS, "index": np.array([0, 99])})


def test_a_scalar_goes_in_and_comes_out(tmp_path: Path) -> None:
    ports: list[Port] = [("rows", FLOAT, ["batch", 3]), ("factor", FLOAT, [])]
    engine = load_engine(save(tmp_path / "m.onnx", "Mul", ports, [("out", FLOAT, ["batch", 3])]), "cpu", 1)
    counter = load_engine(save(tmp_path / "n.onnx", "Size", [ports[0]], [("count", INT64, [])]), "cpu", 1)

    assert engine.inputs[1] == TensorMetadata("factor", "FP32", ())
    for factor in (np.array(2, np.float32), np.array([2], np.float32)):
        assert engine.run({"rows": ROWS, "factor": factor})["out"].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert counter.outputs == (TensorMetadata("count", "INT64", ()),)
    assert counter.run({"rows": ROWS})["count"].tolist() == 6


def test_whole_numbers_are_of_numpys_own_types(tmp_path: Path) -> None:
    rows = ("rows", INT64, ["batch"])
    engine = load_engine(save(tmp_path / "m.onnx", "Neg", [rows], [("out", INT64, ["batch"])]), "cpu", 1)

    assert [type(one) for one in engine.run({"rows": np.array([1, 2])})["out"]] == [np.int64] * 2


def test_inputs_whose_first_dimensions_have_different_names_may_have_different_sizes(tmp_path: Path) -> None:
    texts, pictures = ("texts", FLOAT, ["text", 3]), ("pictures", FLOAT, [3, "picture"])
    engine = load_engine(
        save(tmp_path / "m.onnx", "MatMul", [texts, pictures], [("similar", FLOAT, ["text", "picture"])]), "cpu", 1
    )

    assert engine.run({"texts": ROWS, "pictures": np.eye(3, dtype=np.float32)})["similar"].tolist() == ROWS.tolist()


@pytest.mark.parametrize("keys", [("classlabels_int64s", [3, 5]), ("classlabels_strings", ["cat", "dog"])])
def test_a_map_for_each_row_is_an_array_of_dictionaries(tmp_path: Path, keys: tuple[str, list[Any]]) -> None:
    name, labels = keys
    node = helper.make_node("ZipMap", ["rows"], ["chances"], domain="ai.onnx.ml", **{name: labels})
    kind = TensorProto.INT64 if name.endswith("int64s") else STRING
    maps = helper.make_map_type_proto(kind, helper.make_tensor_type_proto(FLOAT, []))
    graph = helper.make_graph(
        [node, helper.make_node("Identity", ["rows"], ["same"])],
        "zipmap",
        [helper.make_tensor_value_info("rows", FLOAT, ["batch", 2])],
        [
            helper.make_value_info("chances", helper.make_sequence_type_proto(maps)),
            helper.make_tensor_value_info("same", FLOAT, ["batch", 2]),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=opsets), tmp_path / "m.onnx")
    engine = load_engine(tmp_path / "m.onnx", "cpu", 1)

    outputs = engine.run({"rows": np.array([[1, 0.5], [0.25, 2]], np.float32)})

    assert (engine.maps, engine.outputs) == ({"chances"}, (TensorMetadata("same", "FP32", (-1, 2)),))
    assert outputs["chances"].tolist() == [dict(zip(labels, row, strict=True)) for row in ([1, 0.5], [0.25, 2])]
    assert outputs["same"].tolist() == [[1, 0.5], [0.25, 2]]


def test_a_locale_that_the_machine_does_not_have_is_named_with_the_fix(tmp_path: Path) -> None:
    node = helper.make_node("StringNormalizer", ["text"], ["lower"], case_change_action="LOWER", locale="xx_XX.UTF-8")
    ports = [helper.make_tensor_value_info(name, STRING, ["n"]) for name in ("text", "lower")]
    graph = helper.make_graph([node], "text", [ports[0]], [ports[1]])
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")

    with pytest.raises(CannotLoad) as raised:
        load_engine(tmp_path / "m.onnx", "cpu", 1)

    assert str(raised.value) == (
        f"{tmp_path / 'm.onnx'}: cannot be loaded by onnxruntime: this machine has no locale xx_XX.UTF-8, which the "
        "model's text operators need; install it (on Debian: apt-get install locales, then localedef --inputfile=xx_XX "
        "--charmap=UTF-8 xx_XX.UTF-8)"
    )


def of_results(path: Path, operator: str, result: onnx.ValueInfoProto) -> Path:
    rows = helper.make_tensor_value_info("rows", FLOAT, ["batch", 3])
    graph = helper.make_graph([helper.make_node(operator, ["rows"], ["parts"])], "results", [rows], [result])
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_a_sequence_of_tensors_is_an_output_for_each(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("parts", FLOAT, None)
    engine = load_engine(of_results(tmp_path / "m.onnx", "SequenceConstruct", sequence), "cpu", 1)

    assert (engine.outputs, engine.maps) == ((), frozenset())
    assert {name: array.tolist() for name, array in engine.run({"rows": ROWS}).items()} == {"parts-0": ROWS.tolist()}


def test_a_model_whose_results_are_no_tensors_is_refused_at_load(tmp_path: Path) -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    path = of_results(tmp_path / "m.onnx", "Optional", helper.make_value_info("parts", kind))

    with pytest.raises(CannotLoad, match=r"parts is a optional\(tensor\(float\)\), which requests cannot carry"):
        load_engine(path, "cpu", 1)


def test_results_that_are_no_tensors_are_refused_at_load_beside_bf16(tmp_path: Path) -> None:
    rows = helper.make_tensor_value_info("rows", BFLOAT16, ["batch", 3])
    parts = helper.make_tensor_sequence_value_info("parts", FLOAT, None)
    nodes = [
        helper.make_node("Cast", ["rows"], ["widened"], to=FLOAT),
        helper.make_node("SequenceConstruct", ["widened"], ["parts"]),
    ]
    graph = helper.make_graph(nodes, "results", [rows], [parts])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)]), path)

    with pytest.raises(CannotLoad, match=r"parts is a seq\(tensor\(float\)\), which cannot be returned beside BF16"):
        load_engine(path, "cpu", 1)


def test_a_map_as_an_input_is_refused_at_load_with_the_fix(tmp_path: Path) -> None:
    words = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
    node = helper.make_node(
        "DictVectorizer", ["words"], ["rows"], "ai.onnx.ml", domain="ai.onnx.ml", string_vocabulary=["a"]
    )
    graph = helper.make_graph(
        [node],
        "dictionary",
        [helper.make_value_info("words", words)],
        [helper.make_tensor_value_info("rows", FLOAT, [1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=opsets), tmp_path / "m.onnx")

    with pytest.raises(CannotLoad) as raised:
        load_engine(tmp_path / "m.onnx", "cpu", 1)

    assert str(raised.value) == (
        f"{tmp_path / 'm.onnx'}: words is a map(string,tensor(float)), which requests cannot carry; export it with "
        "plain tensors"
    )


def reason_of(path: Path) -> str:
    with pytest.raises(CannotLoad) as raised:
        load_engine(path, "cpu", 1)
    return str(raised.value).removeprefix(f"{path}: cannot be loaded by onnxruntime: ")


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08\x3a\x02\xff\xff")  # its graph is not a message

    assert reason_of(path) == "it is not an ONNX file, or damaged; export or copy it again"


def test_weights_in_another_file_that_is_not_there_are_named(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    weights = onnx.numpy_helper.from_array(np.ones(3, np.float32), "weights")
    ports = [helper.make_tensor_value_info(name, FLOAT, ["n", 3]) for name in ("a", "b")]
    graph = helper.make_graph([helper.make_node("Add", ["a", "weights"], ["b"])], "g", ports[:1], ports[1:], [weights])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, path, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    load_engine(path, "cpu", 1)

    (tmp_path / "m.onnx.data").unlink()

    assert reason_of(path) == (
        "its weights are in m.onnx.data, which is not beside it; put both files into a folder, and serve that"
    )


def test_onnxruntimes_reason_is_told_without_its_sources(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", "Neg", [("a", FLOAT, ["batch", 3])], [("b", FLOAT, ["batch", 3])])
    model = onnx.load(path)
    model.ir_version = 99
    onnx.save(model, path)

    assert reason_of(path).startswith("Unsupported model IR version: 99, max supported IR version: ")


def test_without_onnxruntime_for_gpus_the_cpu_computes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = save(tmp_path / "m.onnx", "Neg", [("a", FLOAT, ["batch", 3])], [("b", FLOAT, ["batch", 3])])

    engine = load_engine(path, "cuda:1", 1)

    assert engine.run({"a": np.ones((1, 3), np.float32)})["b"].tolist() == [[-1, -1, -1]]
    said = "m.onnx runs on the CPU: this onnxruntime cannot use cuda:1; onnxruntime-gpu can"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_declared_inputs_have_no_place_beside_a_model_that_declares_them(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", "Neg", [("a", FLOAT, ["batch", 3])], [("b", FLOAT, ["batch", 3])])
    (tmp_path / "model-config.yaml").write_text("inputs: [{name: a, datatype: FP32, shape: [-1, 3]}]")

    with pytest.raises(CannotLoad, match=r"model-config.yaml: m.onnx describes its inputs and outputs itself"):
        load_engine(path, "cpu", 1)


def test_an_onnx_model_needs_no_torch(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", "Neg", [("a", FLOAT, ["batch", 3])], [("b", FLOAT, ["batch", 3])])
    code = (
        "import sys; from pathlib import Path; from mar_runtime.engines import load_engine; "
        f"load_engine(Path({str(path)!r}), 'cpu', 1); print('torch' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=True, capture_output=True, text=True
    )

    assert done.stdout == "False\n"


def test_onnxruntime_tells_nobody_about_models(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", "Neg", [("a", FLOAT, ["batch", 3])], [("b", FLOAT, ["batch", 3])])
    code = (
        "from pathlib import Path; from mar_runtime.engines import load_engine; "
        f"load_engine(Path({str(path)!r}), 'cpu', 1)"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path), **libraries.ENVIRONMENT}

    subprocess.run([sys.executable, "-c", code], env=environment, check=True)

    assert not (tmp_path / ".cache").exists()  # where it keeps the identity of the machine, and what it has to send


@pytest.mark.parametrize(("package", "name"), [("onnxruntime", "m.onnx")])
def test_a_package_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str
) -> None:
    path = save(tmp_path / name, "Neg", [("a", FLOAT, ["batch", 3])], [("b", FLOAT, ["batch", 3])])
    monkeypatch.delitem(sys.modules, "mar_runtime.engines.onnx", raising=False)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(
        CannotLoad, match=f"ONNX needs the package {package}, which is not installed; the runtime isvc-mar has it$"
    ):
        load_engine(path, "cpu", 1)
