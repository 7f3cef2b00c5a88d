"""`isvc inspect` says of a model's tensors, without loading it, what its server says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_archive.errors import NoModel
from model_archive.formats import format_of
from model_archive.signatures import FileSignature, TensorInfo, signature_of
from storage_initializer.settings import DATATYPES, MODEL_SETTINGS
from tests.support import torch_models


def served(path: Path) -> FileSignature:
    from mar_runtime.engines import load_engine

    engine = load_engine(path, "cpu", 1)
    inputs, outputs = (
        tuple(TensorInfo(one.name, one.datatype, one.shape) for one in found)
        for found in (engine.inputs, engine.outputs)
    )
    return FileSignature(inputs, outputs)


@pytest.mark.parametrize("name", ["one.pt", "two.pt", "nested.pt", "one.onnx", "two.onnx"])
def test_what_is_known_of_a_file_is_what_its_server_says(name: str, tmp_path: Path) -> None:
    import torch

    rows, ids = torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.int64)
    path = tmp_path / name
    save = torch_models.save_onnx if path.suffix == ".onnx" else torch_models.save_traced
    modules = {
        "one": (torch_models.Affine(), rows), "two": (torch_models.Gathering(), ids, rows),
        "nested": (torch.nn.Sequential(torch_models.Affine(), torch_models.Affine()), rows),
    }  # fmt: skip
    module, *examples = modules[path.stem]
    save(path, module, *examples)

    found = signature_of(path, format_of(path))

    assert found == served(path)
    assert len(found.inputs) == len(examples)


def test_of_a_scripted_file_the_names_are_known_and_what_python_types_hold(tmp_path: Path) -> None:
    path = tmp_path / "scripted.pt"
    torch_models.save_scripted(path, torch_models.Masked())

    found = signature_of(path, format_of(path))

    assert found == FileSignature(
        (TensorInfo("rows", None, None), TensorInfo("mask", None, None), TensorInfo("scale", "FP64", ()))
    )
    assert [one.name for one in found.inputs] == [one.name for one in served(path).inputs]


def test_of_an_exported_program_nothing_is_said(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "exported.pt2"
    torch_models.save_exported(path, torch_models.Affine(), torch.zeros(2, 3))

    assert signature_of(path, format_of(path)) == FileSignature()


def test_the_settings_of_a_model_file_are_those_that_its_server_reads() -> None:
    from data_plane.protocol.v2 import datatypes
    from mar_runtime.engines.config import _ConfigFile

    assert (_ConfigFile.__struct_encode_fields__, tuple(datatypes.DATATYPES)) == (MODEL_SETTINGS, DATATYPES)


WEIGHTS = torch_models.nn.Linear(2, 1).state_dict()


@pytest.mark.parametrize(
    ("saved", "what"),
    [
        (WEIGHTS, "holds weights only (a state dict), and needs its class:"),
        (dict(WEIGHTS), "holds weights only (a state dict), and needs its class:"),
        (
            {"epoch": 3, "model": WEIGHTS, "opt": {"state": {}, "param_groups": [{"lr": 0.1}]}},
            "holds a dictionary with the entries 'epoch', 'model', 'opt'; if one of them is the state dict, save it "
            "alone as weights.pt, and",
        ),
        (
            dict.fromkeys("ab\ncdefg", 1),
            "holds a dictionary with the entries 'a', 'b', '\\n', 'c', 'd', …; if one of them is the state dict, save "
            "it alone as weights.pt, and",
        ),
        (next(iter(WEIGHTS.values())), "holds a tensor and no network; save model.state_dict() as weights.pt, and"),
        ([1.0], "holds a list and no network; save model.state_dict() as weights.pt, and"),
        ({0: 1}, "holds a dict and no network; save model.state_dict() as weights.pt, and"),
    ],
)
def test_of_what_has_no_class_it_is_told_what_it_is(saved: object, what: str, tmp_path: Path) -> None:
    import torch

    torch.save(saved, tmp_path / "net.pt")

    with pytest.raises(NoModel) as refused:
        format_of(tmp_path / "net.pt")

    assert str(refused.value).partition(" package it with its class")[0] == what
