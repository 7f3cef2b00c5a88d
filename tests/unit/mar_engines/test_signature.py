"""Requests and answers held against what a model takes."""

from __future__ import annotations

import numpy as np
import pytest

from data_plane.errors import InferenceFailed, UnprocessableInput
from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines.signature import Signature, check_outputs, takes_rows

IMAGE = TensorMetadata("image", "FP32", (-1, 2, 2))
MASK = TensorMetadata("mask", "BOOL", (-1, -1))
TEXT = TensorMetadata("text", "BYTES", (-1,))


def images(batch: int = 3) -> np.ndarray:
    return np.zeros((batch, 2, 2), np.float32)


def masks(batch: int = 3) -> np.ndarray:
    return np.zeros((batch, 7), bool)


def refusal(signature: Signature, given: dict[str, np.ndarray]) -> str:
    with pytest.raises(UnprocessableInput) as caught:
        signature.accept(given)
    return caught.value.message


def test_what_the_model_takes_is_passed_on_as_it_is() -> None:
    given = {"mask": masks(), "image": images()}

    accepted = Signature((IMAGE, MASK)).accept(given)

    assert {name: id(array) for name, array in accepted.items()} == {name: id(array) for name, array in given.items()}


def test_an_optional_input_may_be_left_out() -> None:
    assert list(Signature((IMAGE, MASK), optional=frozenset({"mask"})).accept({"image": images()})) == ["image"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image": images()}, "The model takes the inputs image, mask; missing: mask."),
        ({"image": images(), "Mask": masks()}, "The model takes the inputs image, mask; unknown: Mask."),
        (
            {"image": images().astype(np.float64), "mask": masks()},
            'Input "image" is FP64; the model takes FP32.',
        ),
        ({"image": images().astype(complex), "mask": masks()}, 'Input "image" is complex128; the model takes FP32.'),
        (
            {"image": np.zeros((3, 2, 5), np.float32), "mask": masks()},
            'Input "image" has the shape [3, 2, 5]; the model takes [-1, 2, 2], where -1 is any size.',
        ),
        (
            {"image": np.zeros((3, 2), np.float32), "mask": masks()},
            'Input "image" has the shape [3, 2]; the model takes [-1, 2, 2], where -1 is any size.',
        ),
        (
            {"image": images(3), "mask": masks(2)},
            "The first size of every input is the batch, the same for all; got image [3, 2, 2], mask [2, 7].",
        ),
    ],
    ids=["missing", "unknown", "datatype", "no-datatype", "size", "rank", "uneven-batch"],
)
def test_anything_else_is_refused_with_what_is_wrong(given: dict[str, np.ndarray], message: str) -> None:
    assert refusal(Signature((IMAGE, MASK)), given) == message


def test_numbers_are_refused_where_the_model_takes_text() -> None:
    assert refusal(Signature((TEXT,)), {"text": np.zeros(2, np.float32)}) == (
        'Input "text" is FP32; the model takes BYTES.'
    )


GUESS = TensorMetadata("x", "FP32", (-1,))


def test_a_guess_takes_any_datatype_and_shape_and_a_lone_input_under_any_name() -> None:
    tokens = np.zeros((2, 5), np.int64)

    assert Signature((GUESS,), is_guess=True).accept({"input-0": tokens})["x"] is tokens


def test_several_guessed_inputs_go_by_their_names() -> None:
    signature = Signature((GUESS, TensorMetadata("y", "FP32", (-1,))), is_guess=True)

    assert refusal(signature, {"a": images(), "b": images()}) == "The model takes the inputs x, y; unknown: a, b."


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_scalar_is_taken_from_a_tensor_of_one_element(shape: tuple[int, ...]) -> None:
    signature = Signature((IMAGE, TensorMetadata("rate", "INT64", ())))

    accepted = signature.accept({"image": images(), "rate": np.full(shape, 16000)})

    assert (accepted["rate"].shape, accepted["rate"].item()) == ((), 16000)


@pytest.mark.parametrize("is_guess", [True, False])
def test_several_values_for_a_scalar_are_refused(is_guess: bool) -> None:
    signature = Signature((IMAGE, TensorMetadata("rate", "INT64", ())), is_guess=is_guess)

    assert refusal(signature, {"image": images(), "rate": np.arange(3)}) == (
        'Input "rate" has the shape [3]; the model takes one INT64.'
    )


@pytest.mark.parametrize(
    "signature",
    [
        Signature((TensorMetadata("x", "FP32", (-1, -1)), TensorMetadata("state", "FP32", (2, -1, 8)))),
        Signature(
            (TensorMetadata("x", "FP32", (-1, -1)), TensorMetadata("state", "FP32", (-1, -1, 8))), is_uneven=True
        ),
        Signature((TensorMetadata("x", "FP32", (-1,)), TensorMetadata("state", "FP32", (-1,))), is_guess=True),
    ],
    ids=["fixed", "named-differently", "guess"],
)
def test_inputs_that_do_not_share_a_first_dimension_may_have_different_ones(signature: Signature) -> None:
    given = {"x": np.zeros((1, 5), np.float32), "state": np.zeros((2, 1, 8), np.float32)}

    assert {name: array.shape for name, array in signature.accept(given).items()} == {"x": (1, 5), "state": (2, 1, 8)}


@pytest.mark.parametrize(
    ("inputs", "rows"),
    [
        ((IMAGE, MASK), True),
        ((TensorMetadata("x", "FP32", (1, 3)), TensorMetadata("y", "FP32", (1,))), True),
        ((IMAGE, TensorMetadata("scale", "FP64", ())), True),
        ((IMAGE, TensorMetadata("rate", "INT64", ())), False),
        ((IMAGE, TensorMetadata("state", "FP32", (2, -1, 8))), False),
        ((TensorMetadata("rate", "INT64", ()),), False),
    ],
    ids=["free", "fixed", "optional-scalar", "scalar", "state", "scalar-alone"],
)
def test_a_request_has_rows_if_the_inputs_share_their_first_size(
    inputs: tuple[TensorMetadata, ...], rows: bool
) -> None:
    assert takes_rows(inputs, optional={"scale"}) is rows


def test_an_output_of_rows_without_elements_is_a_failure_of_the_model() -> None:
    with pytest.raises(InferenceFailed, match=r"^The model's outputs cannot be sent: Tensor \"boxes\": shape \[1, 100"):
        check_outputs({"boxes": np.zeros((1, 10**6, 0))})
