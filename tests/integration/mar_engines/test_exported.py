"""torch.export programs, and the packages that AOTInductor compiles of them."""

from __future__ import annotations

import platform
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch

from data_plane.errors import UnprocessableInput
from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.tensors import Tensor
from mar_runtime.engines import CannotLoad, Engine, load_engine
from tests.support import torch_models
from tests.support.build_cache import kept

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
EXAMPLE = torch.zeros(2, 3)
ROWS_TAKEN = TensorMetadata("rows", "FP32", (-1, 3))
TIMES, PLUS = TensorMetadata("times", "INT64", ()), TensorMetadata("plus", "FP32", ())


def test_a_program_answers_with_any_batch_size_and_says_what_it_takes(tmp_path: Path) -> None:
    engine = load_engine(torch_models.save_exported(tmp_path / "m.pt2", torch_models.Affine(), EXAMPLE), "cpu", 1)

    assert engine.platform == "pytorch_export"
    assert engine.inputs == (TensorMetadata("rows", "FP32", (-1, 3)),)
    assert engine.run({"rows": ROWS})["output-0"].tolist() == [[1, 3, 5], [7, 9, 11]]
    assert engine.run({"rows": ROWS[:1]})["output-0"].tolist() == [[1, 3, 5]]


def test_a_program_of_bf16_takes_and_gives_it(tmp_path: Path) -> None:
    path = torch_models.save_exported(tmp_path / "m.pt2", torch_models.Bfloat16(), EXAMPLE.bfloat16())
    engine = load_engine(path, "cpu", 1)

    assert engine.inputs == (TensorMetadata("rows", "BF16", (-1, 3)),)
    output = Tensor.from_numpy("output-0", engine.run({"rows": ROWS})["output-0"])
    assert (output.datatype, output.data.tolist()) == ("BF16", [[0, 2, 4], [6, 8, 10]])


def test_a_program_gives_names_to_its_results(tmp_path: Path) -> None:
    engine = load_engine(torch_models.save_exported(tmp_path / "m.pt2", torch_models.Named(), EXAMPLE), "cpu", 1)

    outputs = engine.run({"rows": ROWS[:1]})

    assert {name: array.tolist() for name, array in outputs.items()} == {"same": [[0, 1, 2]], "more": [[1, 2, 3]]}


def exported_scaled(folder: Path, times: object) -> Engine:
    """Rows, times a number, plus a tensor of one element without dimensions."""
    batch = torch.export.Dim("batch", min=1, max=64)
    arguments = (EXAMPLE, 5, None, torch.tensor(2.0))
    program = torch.export.export(torch_models.Scaled(), arguments, dynamic_shapes=({0: batch}, times, None, None))
    torch.export.save(program, folder / "m.pt2")
    return load_engine(folder / "m.pt2", "cpu", 1)


def test_a_program_takes_whole_numbers_that_may_vary(tmp_path: Path) -> None:
    engine = exported_scaled(tmp_path, torch.export.Dim.DYNAMIC)

    outputs = engine.run({"rows": ROWS, "times": np.array([3]), "plus": np.array([1], np.float32)})

    assert (engine.inputs, engine.optional) == ((ROWS_TAKEN, TIMES, PLUS), frozenset())
    assert outputs["output-0"].tolist() == [[1, 4, 7], [10, 13, 16]]


def test_a_value_that_a_program_was_exported_for_may_be_left_out(tmp_path: Path) -> None:
    engine = exported_scaled(tmp_path, None)
    given = {"rows": ROWS[:1], "plus": np.array(1, np.float32)}

    assert (engine.inputs, engine.optional) == ((ROWS_TAKEN, TIMES, PLUS), {"times"})
    for more in ({}, {"times": np.array(5)}):
        assert engine.run({**given, **more})["output-0"].tolist() == [[1, 6, 11]]
    with pytest.raises(UnprocessableInput, match=r"^The program was not exported for these inputs: .*times == 5"):
        engine.run({**given, "times": np.array(6)})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((2, 4), np.float32), r'^Input "rows" has the shape \[2, 4\]; the model takes \[-1, 3\]'),
        (np.zeros((2, 3)), '^Input "rows" is FP64; the model takes FP32.$'),
        (np.zeros((9, 3), np.float32), r"^The program was not exported for these inputs: .*<= 8"),
    ],
    ids=["shape", "datatype", "larger-batch-than-exported"],
)
def test_a_program_refuses_what_it_was_not_exported_for(tmp_path: Path, rows: np.ndarray, message: str) -> None:
    path = torch_models.save_exported(tmp_path / "m.pt2", torch_models.Affine(), EXAMPLE, most=8)
    engine = load_engine(path, "cpu", 1)

    with pytest.raises(UnprocessableInput, match=message):
        engine.run({"rows": rows})


def test_a_program_needs_no_declared_inputs(tmp_path: Path) -> None:
    path = torch_models.save_exported(tmp_path / "m.pt2", torch_models.Affine(), EXAMPLE)
    (tmp_path / "model-config.yaml").write_text("inputs: [{name: rows, datatype: FP32, shape: [-1, 3]}]")

    with pytest.raises(CannotLoad, match=r"model-config.yaml: m.pt2 describes its inputs itself; remove them here$"):
        load_engine(path, "cpu", 1)


def test_a_damaged_program_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "m.pt2"
    with ZipFile(path, "w") as archive:
        archive.writestr("m/models/model.json", "{}")

    with pytest.raises(CannotLoad, match=r"cannot be loaded as a torch.export program: "):
        load_engine(path, "cpu", 1)
    assert "Traceback" not in caplog.text


# --- AOTInductor ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def package() -> Path:
    """Compiled for this processor."""
    processor = (platform.machine(), torch.backends.cpu.get_cpu_capability())
    folder = kept("aotinductor", compile_package, Path(torch_models.__file__), *processor)
    return folder / "m.pt2"


def compile_package(folder: Path) -> None:
    torch_models.save_compiled(folder / "m.pt2", torch_models.Affine(), EXAMPLE)


def test_a_compiled_package_without_declared_inputs_is_refused(package: Path) -> None:
    with pytest.raises(CannotLoad, match=r"does not say what it takes; declare inputs in model-config.yaml beside it$"):
        load_engine(package, "cpu", 1)


def test_a_compiled_package_answers_and_refuses_what_is_not_declared(package: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    path.write_bytes(package.read_bytes())
    (tmp_path / "model-config.yaml").write_text("inputs: [{name: rows, datatype: FP32, shape: [-1, 3]}]")
    engine = load_engine(path, "cpu", 1)

    assert engine.platform == "pytorch_aotinductor"
    assert engine.run({"rows": ROWS})["output-0"].tolist() == [[1, 3, 5], [7, 9, 11]]
    assert engine.run({"rows": ROWS[:1]})["output-0"].tolist() == [[1, 3, 5]]
    with pytest.raises(UnprocessableInput, match=r'^Input "rows" is FP64; the model takes FP32.$'):
        engine.run({"rows": ROWS.astype(np.float64)})
