"""The envelope inside TorchServe's workers: batches, what a handler may return, and what it may raise."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

# What importing torch and TorchServe warns of: torch.cuda imports pynvml, ts leaves its version.txt open.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The pynvml package is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed file .*version.txt:ResourceWarning"),
]


class Context:
    """As much of TorchServe's as the envelope touches."""

    def __init__(self, **headers: str) -> None:
        self._headers = headers
        self.statuses: dict[int, int] = {}

    def get_request_header(self, index: int, name: str) -> str | None:
        return self._headers.get(name)

    def set_response_status(self, code: int, phrase: str, idx: int) -> None:
        self.statuses[idx] = code


def handle(function: Any, *requests: list[Any], context: Context | None = None) -> list[Any]:
    from torchserve_adapter.worker import V1Envelope

    batch = [{"body": orjson.dumps({"instances": instances})} for instances in requests]
    return [orjson.loads(answer) for answer in V1Envelope(function).handle(batch, context or Context())]


def doubled(instances: list[int], _: Any) -> list[int]:
    if -1 in instances:
        raise ValueError("negative")
    return [2 * value for value in instances]


def raised(function: Any, *requests: list[Any]) -> tuple[str, int]:
    from ts.utils.util import PredictionException

    with pytest.raises(PredictionException) as caught:
        handle(function, *requests)
    return caught.value.message, caught.value.error_code


def test_a_batch_of_requests_is_one_call_and_each_gets_its_own_back() -> None:
    calls: list[list[int]] = []

    def recorded(instances: list[int], context: Any) -> list[int]:
        calls.append(instances)
        return doubled(instances, context)

    assert handle(recorded, [1, 2], [], [3]) == [{"predictions": [2, 4]}, {"predictions": []}, {"predictions": [6]}]
    assert calls == [[1, 2, 3]]


def test_one_bad_request_of_a_batch_fails_alone() -> None:
    context = Context()

    answers = handle(doubled, [1], [-1], [3], context=context)

    assert answers == [{"predictions": [2]}, {"code": 500, "message": "ValueError : negative"}, {"predictions": [6]}]
    assert context.statuses == {1: 500}


def test_arrays_and_tensors_are_lists() -> None:
    import numpy as np
    import torch

    assert handle(lambda data, _: np.array(data), [1, 2]) == [{"predictions": [1, 2]}]
    assert handle(lambda data, _: [torch.tensor([1.5]), {1: np.int64(2)}], [1, 2]) == [
        {"predictions": [[1.5], {"1": 2}]}
    ]


def test_explanations_have_their_own_key() -> None:
    assert handle(doubled, [1], context=Context(explain="True")) == [{"explanations": [2]}]


def test_a_body_that_torchserve_has_parsed_already_is_taken() -> None:
    from torchserve_adapter.worker import V1Envelope

    assert V1Envelope(doubled).handle([{"body": {"instances": [1]}}], Context()) == [b'{"predictions":[2]}']


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (doubled, "ValueError : negative"),
        (lambda data, _: [], "The handler must return one prediction per instance in a list: 1 expected, got 0"),
        (
            lambda data, _: {"a": 1},
            "The handler must return one prediction per instance in a list: 1 expected, got dict",
        ),
        (
            lambda data, _: None,
            "The handler must return one prediction per instance in a list: 1 expected, got NoneType",
        ),
        (lambda data, _: [object()], "The handler's result cannot be written as JSON: "),
    ],
)
def test_what_a_handler_does_wrong_is_said(function: Any, message: str) -> None:
    said, status = raised(function, [-1])

    assert (said[: len(message)], status) == (message, 500)


def test_a_handlers_own_status_is_kept() -> None:
    from ts.utils.util import PredictionException

    def unprocessable(*_: Any) -> None:
        raise PredictionException("too dark", 422)

    assert raised(unprocessable, [1]) == ("too dark", 422)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory")])
def test_lack_of_memory_is_left_to_torchserve(error: Exception) -> None:
    def exhausted(*_: Any) -> None:
        raise error

    with pytest.raises(type(error)):
        handle(exhausted, [1])
