"""What is known of a model's tensors without loading it.

tests/integration/mar_engines/test_known_inputs.py compares it to servers.
"""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from model_archive import protobuf, signatures
from model_archive.formats import Format
from model_archive.signatures import FileSignature, TensorInfo, signature_of

X = TensorInfo("x", "FP32", (-1, 3))


def saved(path: Path, *initializers: onnx.TensorProto) -> Path:
    """A graph with a sequence beside its tensor, and with constants among its inputs, as of IR 3."""
    x, w, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xwy")
    several = helper.make_tensor_sequence_value_info("several", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x, w], [y, several], initializers)
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def test_constants_are_no_inputs_and_sequences_no_tensors(tmp_path: Path) -> None:
    constant = helper.make_tensor("w", TensorProto.FLOAT, [1, 3], [1.0, 2.0, 3.0])

    found = signature_of(saved(tmp_path / "m.onnx", constant), Format.ONNX)

    assert found == FileSignature((X,), (TensorInfo("y", "FP32", (-1, 3)),))


def test_only_so_many_fields_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "m.onnx")
    monkeypatch.setattr(protobuf, "MAX_FIELDS", 10)

    assert signature_of(path, Format.ONNX) == FileSignature()


def test_only_so_many_tensors_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "MAX_TENSORS", 1)

    assert signature_of(saved(tmp_path / "m.onnx"), Format.ONNX) == FileSignature(
        (TensorInfo("x", "FP32", (-1,)),), (TensorInfo("y", "FP32", (-1,)),)
    )


def test_what_is_damaged_says_nothing(tmp_path: Path) -> None:
    path, chance = saved(tmp_path / "m.onnx"), random.Random(1)
    whole = path.read_bytes()
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] = chance.randrange(256)
        del damaged[chance.randrange(len(whole)) :]
        path.write_bytes(damaged)
        assert isinstance(signature_of(path, Format.ONNX), FileSignature)
