"""TorchScript files, run by torch itself."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from torch import nn

from data_plane.errors import InferenceFailed, ServingError, UnprocessableInput
from data_plane.protocol.v2.datatypes import DATATYPES, Datatype
from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines import CannotLoad, Engine, load_engine
from mar_runtime.engines.signature import Signature
from mar_runtime.engines.torch_engine import TorchEngine
from mar_runtime.engines.torchscript import Forward
from model_archive.traced import examples
from tests.support import torch_models

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def scripted(folder: Path, module: nn.Module, config: str = "") -> Engine:
    if config:
        (folder / "model-config.yaml").write_text(config)
    return load_engine(torch_models.save_scripted(folder / "model.pt", module), "cpu", 1)


def lists(outputs: dict[str, Any]) -> dict[str, Any]:
    return {name: array.tolist() for name, array in outputs.items()}


def test_a_scripted_model_answers_with_its_first_run_and_with_later_ones(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Affine())

    answers = [lists(engine.run({"rows": ROWS.copy()})) for _ in range(4)]

    assert answers == [{"output-0": [[1, 3, 5], [7, 9, 11]]}] * 4


def test_a_model_says_its_inputs_from_the_signature_of_forward(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Masked())

    assert engine.platform == "pytorch_torchscript"
    assert engine.inputs == (
        TensorMetadata("rows", "FP32", (-1,)),
        TensorMetadata("mask", "FP32", (-1,)),
        TensorMetadata("scale", "FP64", ()),
    )
    assert engine.outputs == ()


def test_a_traced_model_says_what_its_example_was(tmp_path: Path) -> None:
    examples = torch.zeros(1, 4, dtype=torch.int64), torch.zeros(1, 3, 2, dtype=torch.float16)
    path = torch_models.save_traced(tmp_path / "model.pt", torch_models.Gathering(), *examples)

    assert load_engine(path, "cpu", 1).inputs == (
        TensorMetadata("ids", "INT64", (-1, 4)),
        TensorMetadata("weights", "FP16", (-1, 3, 2)),
    )


@pytest.mark.parametrize("row", [row for row in DATATYPES.values() if row.torch], ids=lambda row: row.name)
def test_the_datatype_of_an_example_is_that_of_its_tensor(tmp_path: Path, row: Datatype) -> None:
    path = torch_models.save_traced(
        tmp_path / "model.pt", torch_models.AsFloats(), torch.zeros(1, dtype=getattr(torch, row.torch))
    )

    assert [example.datatype for example in examples(path)] == [row.name]


@pytest.mark.parametrize("shapes", [((2, 4), (1, 3)), ((4,), ()), ((), ())])
def test_of_an_example_that_is_no_rows_only_the_names_are_taken(tmp_path: Path, shapes: Any) -> None:
    path = torch_models.save_traced(
        tmp_path / "model.pt", torch_models.Gathering(), *(torch.zeros(shape) for shape in shapes)
    )

    assert load_engine(path, "cpu", 1).inputs == (
        TensorMetadata("ids", "FP32", (-1,)),
        TensorMetadata("weights", "FP32", (-1,)),
    )


class Calls:
    """Runs a program when a pickle of it is read."""

    def __reduce__(self) -> Any:
        return print, ("run",)


@pytest.mark.parametrize(
    "record",
    [b"", b"no pickle", pickle.dumps({"forward": [Calls()]}), pickle.dumps({}), pickle.dumps({"forward": ["x"]})],
)
def test_a_record_of_an_example_is_read_without_running_anything(
    tmp_path: Path, record: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    path = torch_models.save_scripted(tmp_path / "model.pt", torch_models.Affine())
    with ZipFile(path, "a") as archive:
        archive.writestr("model/traced_inputs.pkl", record)

    assert (examples(path), capfd.readouterr().out) == ([], "")


def test_an_input_that_forward_does_not_need_may_be_left_out(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Masked())
    mask = np.array([[0, 1, 0], [1, 0, 1]], np.float32)

    assert lists(engine.run({"rows": ROWS})) == {"output-0": [[0, 2, 4], [6, 8, 10]]}
    assert lists(engine.run({"mask": mask, "rows": ROWS})) == {"output-0": [[0, 2, 0], [6, 0, 10]]}


@pytest.mark.parametrize("save", [torch_models.save_scripted, torch_models.save_frozen])
@pytest.mark.parametrize("batch", [1, 2, 3, 32])
def test_the_optimized_model_gives_the_results_of_the_original(tmp_path: Path, save: Any, batch: int) -> None:
    network = torch_models.Convolutions()
    images = np.random.default_rng(batch).standard_normal((batch, 1, 8, 8), dtype=np.float32)
    engine = load_engine(save(tmp_path / "model.pt", network), "cpu", 1)

    with torch.no_grad():
        expected = network(torch.from_numpy(images)).numpy()

    for _ in range(3):
        np.testing.assert_allclose(engine.run({"image": images})["output-0"], expected, rtol=1e-5, atol=1e-6)


# --- which form of the model stays ---------------------------------------------------------------------------


def add(amount: float) -> Any:
    return lambda rows: {"sum": rows + amount}


def fails(rows: torch.Tensor) -> Any:
    raise RuntimeError("no kernel for this")


@pytest.mark.parametrize(
    ("candidate", "later"),
    [
        (add(1 + 1e-6), "candidate"),
        (add(1.001), "saved"),
        (lambda rows: {"total": rows + 1}, "saved"),
        (lambda rows: {"sum": (rows + 1).double()}, "saved"),
        (lambda rows: {"sum": (rows + 1)[:1]}, "saved"),
        (fails, "saved"),
    ],
    ids=["within-rounding", "other-values", "other-name", "other-datatype", "other-shape", "fails"],
)
def test_the_optimized_model_stays_only_if_the_first_batch_gives_the_same(candidate: Any, later: str) -> None:
    calls: list[str] = []

    def named(name: str, function: Any) -> Any:
        return lambda rows: (calls.append(name), function(rows))[1]

    forward = Forward(named("saved", add(1)), named("candidate", candidate))
    first = forward([torch.ones(2, 3)])
    assert isinstance(first, dict)
    assert first["sum"].tolist() == [[2] * 3] * 2
    calls.clear()
    forward([torch.ones(2, 3)])

    assert calls == [later]


def test_integers_have_no_rounding_to_allow_for() -> None:
    forward = Forward(lambda rows: rows, lambda rows: rows + 1)  # type: ignore[arg-type]

    forward([torch.tensor([10_000_000])])

    assert forward([torch.tensor([1])]) == torch.tensor([1])


def test_a_model_with_chance_in_it_runs_as_it_was_saved(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Noise())

    first, second = (engine.run({"rows": ROWS})["output-0"] for _ in range(2))

    assert isinstance(engine, TorchEngine)
    assert np.all((first >= ROWS) & (first < ROWS + 1))
    assert not np.array_equal(first, second)


# --- numpy in, numpy out -------------------------------------------------------------------------------------


def test_a_model_that_works_in_place_does_not_write_into_read_only_input(tmp_path: Path) -> None:
    received = ROWS.tobytes()
    engine = scripted(tmp_path, torch_models.InPlace())

    for _ in range(2):
        rows = np.frombuffer(received, np.float32).reshape(2, 3)
        assert lists(engine.run({"rows": rows})) == {"output-0": [[0, 2, 4], [6, 8, 10]]}
    assert received == ROWS.tobytes()


def test_an_array_that_is_not_contiguous_is_taken(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Affine())

    assert lists(engine.run({"rows": ROWS[::-1, ::-1]})) == {"output-0": [[11, 9, 7], [5, 3, 1]]}


@pytest.mark.parametrize(
    "dtype",
    [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64,
     np.float16, np.float32, np.float64],
)  # fmt: skip
def test_every_datatype_of_numbers_goes_in_and_comes_out(dtype: Any) -> None:
    rows = np.array([[0, 1], [1, 0]], dtype)
    signature = Signature((TensorMetadata("rows", "FP32", (-1,)),), is_guess=True)
    engine = TorchEngine("test", signature, lambda tensors: tensors[0], torch.device("cpu"))

    (output,) = engine.run({"rows": rows}).values()

    assert output.dtype == dtype
    assert output.tolist() == rows.tolist()


def test_text_is_refused(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Affine())

    with pytest.raises(UnprocessableInput, match=r'^Input "rows" is BYTES; torch has no such tensors, send numbers\.$'):
        engine.run({"rows": np.array([b"a", b"b"], object)})


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (torch_models.Pair(), {"output-0": [[1]], "output-1-0": [[2]], "output-1-1": [[3]]}),
        (torch_models.Named(), {"same": [[1]], "more": [[2]]}),
        (torch_models.Half(), {"output-0": [[1]]}),
    ],
    ids=["nested-tuples", "dictionary", "bfloat16"],
)
def test_results_of_any_structure_are_named(tmp_path: Path, module: nn.Module, expected: dict[str, Any]) -> None:
    engine = scripted(tmp_path, module)

    assert [lists(engine.run({"rows": np.ones((1, 1), np.float32)})) for _ in range(2)] == [expected] * 2


# --- numbers and text beside tensors, and results that are not rows ------------------------------------------

VALUES = {"times": 3, "plus": 0.5, "negative": True}


def values(**more: Any) -> dict[str, np.ndarray]:
    given = {
        name: np.array([value], object if isinstance(value, bytes) else None) for name, value in (VALUES | more).items()
    }
    return {"rows": np.array([[1, 2]], np.float32), **given}


def test_a_forward_that_takes_values_says_so(tmp_path: Path) -> None:
    assert scripted(tmp_path, torch_models.Settled()).inputs == (
        TensorMetadata("rows", "FP32", (-1,)),
        TensorMetadata("times", "INT64", ()),
        TensorMetadata("plus", "FP64", ()),
        TensorMetadata("negative", "BOOL", ()),
        TensorMetadata("unit", "BYTES", ()),
        TensorMetadata("most", "FP64", ()),
        TensorMetadata("mask", "FP32", (-1,)),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (values(), [[-4.5, -7.5]]),
        (values(times=np.int16(1), plus=np.float32(1), negative=False), [[3, 4]]),
        (values(plus=2), [[-6, -9]]),
        (values(unit=b"thousand"), [[-4500, -7500]]),
        (values(most=-5.0), [[-5, -7.5]]),
        ({**values(), "mask": np.array([[0, 1]], np.float32)}, [[0, -7.5]]),
    ],
    ids=["required", "other-sizes", "whole-number", "text", "optional", "tensor-after-values"],
)
def test_a_value_comes_from_a_tensor_of_one_element(tmp_path: Path, given: Any, expected: Any) -> None:
    engine = scripted(tmp_path, torch_models.Settled())

    assert [lists(engine.run(given)) for _ in range(2)] == [{"output-0": expected}] * 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (values(times=1.5), 'Input "times" is float64 of shape []; the model takes one int.'),
        (values(negative=1), 'Input "negative" is int64 of shape []; the model takes one bool.'),
        (
            values(unit=b"\xff"),
            'Input "unit" holds bytes that are not UTF-8; the model takes text.',
        ),
        ({**values(), "times": np.array([1, 2])}, 'Input "times" has the shape [2]; the model takes one INT64.'),
    ],
)
def test_another_value_is_refused(tmp_path: Path, given: Any, message: str) -> None:
    with pytest.raises(UnprocessableInput) as raised:
        scripted(tmp_path, torch_models.Settled()).run(given)

    assert raised.value.message == message


def test_declared_values_are_those_that_forward_needs(tmp_path: Path) -> None:
    rows, times = "{name: rows, datatype: FP32, shape: [-1, 2]}", "{name: times, datatype: INT64, shape: []}"
    engine = scripted(tmp_path, torch_models.Counted(), f"inputs: [{times}, {rows}]")

    assert lists(engine.run({"rows": np.ones((1, 2), np.float32), "times": np.array(3)})) == {"output-0": [[3, 3]]}
    with pytest.raises(CannotLoad, match=r"forward takes rows, times; model-config.yaml declares rows$"):
        scripted(tmp_path, torch_models.Counted(), f"inputs: [{rows}]")


def test_a_number_for_the_whole_batch_is_a_scalar(tmp_path: Path) -> None:
    total, mean = (
        scripted(tmp_path, module).run({"rows": ROWS}) for module in (torch_models.Sum(), torch_models.Mean())
    )

    assert lists(total) == {"output-0": 15}
    assert (lists(mean), mean["output-0"].dtype) == ({"output-0": 2.5}, np.float64)


STEPS = np.ones((5, 1, 3), np.float32)


def test_the_states_of_a_tuple_go_both_ways_whole(tmp_path: Path) -> None:
    network = torch_models.Recurrent()
    engine = scripted(tmp_path, network)

    first = engine.run({"steps": STEPS})
    second = engine.run({"steps": STEPS, "state-0": first["output-1-0"], "state-1": first["output-1-1"]})

    assert [one.name for one in engine.inputs] == ["steps", "state-0", "state-1"]
    with torch.no_grad():
        _, state = network(torch.from_numpy(STEPS))
        out, (h, c) = network(torch.from_numpy(STEPS), state)
    for found, wanted in zip(second.values(), (out, h, c), strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_a_part_of_a_tuple_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnprocessableInput, match=r"^The model takes state-0, state-1 together; missing: state-1.$"):
        scripted(tmp_path, torch_models.Recurrent()).run({"steps": STEPS, "state-0": np.zeros((2, 1, 4), np.float32)})


def test_a_state_that_the_model_keeps_itself_is_not_changed_by_a_second_form_of_it(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Counting())

    assert [engine.run({"rows": np.zeros((1, 1), np.float32)})["output-0"].item() for _ in range(3)] == [1, 2, 3]


# --- model-config.yaml ---------------------------------------------------------------------------------------

DECLARED = "inputs: [{name: rows, datatype: FP32, shape: [-1, 3]}]\n"


def test_declared_inputs_are_what_requests_are_held_against(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Affine(), DECLARED)

    assert engine.inputs == (TensorMetadata("rows", "FP32", (-1, 3)),)
    with pytest.raises(UnprocessableInput, match=r'^Input "rows" is INT64; the model takes FP32.$'):
        engine.run({"rows": ROWS.astype(np.int64)})


def test_declared_outputs_name_the_results_in_their_order(tmp_path: Path) -> None:
    config = "outputs: [{name: same, datatype: FP32, shape: [-1, 3]}, {name: more, datatype: FP32, shape: [-1, 3]}]"
    engine = scripted(tmp_path, torch_models.Pair(), config)

    assert [metadata.name for metadata in engine.outputs] == ["same", "more"]
    assert lists(engine.run({"rows": ROWS[:1]})) == {"same": [[0, 1, 2]], "more": [[1, 2, 3]]}


def test_a_declared_output_that_the_model_does_not_give_is_its_failure(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Named(), "outputs: [{name: less, datatype: FP32, shape: [-1, 3]}]")

    with pytest.raises(InferenceFailed, match=r"^The model gives same, more; model-config.yaml declares more: less.$"):
        engine.run({"rows": ROWS})


def test_declared_inputs_must_be_those_of_forward(tmp_path: Path) -> None:
    with pytest.raises(CannotLoad, match=r"forward takes rows, mask, scale; model-config.yaml declares rows$"):
        scripted(tmp_path, torch_models.Masked(), DECLARED)


# --- what goes wrong -----------------------------------------------------------------------------------------


def test_what_the_model_raises_is_told_without_its_traceback(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Strict())

    for _ in range(2):
        with pytest.raises(InferenceFailed) as caught:
            engine.run({"rows": -ROWS})
        assert caught.value.message == (
            'The model failed: negative numbers are not supported. Input "rows" is FP32 of shape [2, 3]. The file does '
            "not say what it takes; if it is something else, describe it in model-config.yaml."
        )
        assert lists(engine.run({"rows": ROWS})) == {"output-0": [[0, 1, 2], [3, 4, 5]]}


def test_what_a_model_fails_on_is_shown_alone_if_what_it_takes_is_declared(tmp_path: Path) -> None:
    engine = scripted(tmp_path, torch_models.Strict(), DECLARED)

    with pytest.raises(InferenceFailed, match=r'supported\. Input "rows" is FP32 of shape \[2, 3\]\.$'):
        engine.run({"rows": -ROWS})


PICTURES = np.zeros((2, 1, 8, 8), np.float32)
OTHER_KIND = 'Input "image" is {}; the model was traced with FP32 of shape [1, 1, 8, 8]. It failed: '


@pytest.mark.parametrize(
    ("pictures", "error", "message"),
    [
        (PICTURES[0], UnprocessableInput, OTHER_KIND.format("FP32 of shape [1, 8, 8]")),
        (PICTURES.astype(np.int64), UnprocessableInput, OTHER_KIND.format("INT64 of shape [2, 1, 8, 8]")),
        (
            np.zeros((2, 3, 8, 8), np.float32),
            InferenceFailed,
            "The model failed: Given groups=1, weight of size [8, 1, 3, 3], expected input[2, 3, 8, 8] to have 1 "
            'channels, but got 3 channels instead. Input "image" is FP32 of shape [2, 3, 8, 8]; the model was traced '
            "with FP32 of shape [1, 1, 8, 8].",
        ),
    ],
    ids=["dimensions", "datatype", "sizes"],
)
def test_what_a_traced_model_fails_on_is_compared_with_its_example(
    tmp_path: Path, pictures: Any, error: type[ServingError], message: str
) -> None:
    path = torch_models.save_traced(tmp_path / "model.pt", torch_models.Convolutions(), torch.zeros(1, 1, 8, 8))

    with pytest.raises(ServingError) as caught:
        load_engine(path, "cpu", 1).run({"image": pictures})

    assert (type(caught.value), caught.value.message[: len(message)]) == (error, message)


@pytest.mark.parametrize("rows", [ROWS[0], ROWS[None], ROWS.astype(np.int64)], ids=["fewer", "more", "integers"])
def test_a_traced_model_takes_what_it_can(tmp_path: Path, rows: Any) -> None:
    path = torch_models.save_traced(tmp_path / "model.pt", torch_models.Affine(), torch.zeros(1, 3))

    assert lists(load_engine(path, "cpu", 1).run({"rows": rows})) == {"output-0": (2 * rows + 1).tolist()}


def test_a_forward_that_needs_what_no_tensor_holds_is_refused_at_load(tmp_path: Path) -> None:
    with pytest.raises(
        CannotLoad, match=r"forward takes what no tensor holds \(states: List\[Tensor\]\); package it with"
    ):
        scripted(tmp_path, torch_models.Listed())


def test_a_file_whose_code_is_damaged_is_refused(tmp_path: Path) -> None:
    whole = torch_models.save_scripted(tmp_path / "whole.pt", torch_models.Affine())
    damaged = tmp_path / "model.pt"
    with ZipFile(whole) as source, ZipFile(damaged, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b"def forward", b"dfe forward"))

    with pytest.raises(CannotLoad, match="cannot be loaded as TorchScript: "):
        load_engine(damaged, "cpu", 1)


def test_serving_a_deprecated_format_warns_nobody(tmp_path: Path) -> None:
    path = torch_models.save_scripted(tmp_path / "model.pt", torch_models.Affine())

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_engine(path, "cpu", 1).run({"rows": ROWS})

    assert caught == []
