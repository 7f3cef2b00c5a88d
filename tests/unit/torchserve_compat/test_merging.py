"""Requests that were merged get what they would have got alone, whatever the envelope and the handler's results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.torchserve_compat.running import documents, instances, json_request, run, tensor_request, whole
from torchserve_compat.frames import REFUSAL, Form, HandlerFailure, HandlerRequest, HandlerResponse

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
REQUESTS = st.lists(st.lists(JSON, max_size=4).map(lambda values: instances(*values)), min_size=1, max_size=6)
ROWS = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2), min_size=1, max_size=4)
TENSORS = st.lists(ROWS.map(lambda rows: tensor_request(x=rows)), min_size=1, max_size=6)


def echo(data: list[Any], _: Any) -> list[Any]:
    return data


def counting(data: list[Any], _: Any) -> list[Any]:
    """Results of a kind for each place in the batch: whoever gets another's place gets another result."""
    return [{"place": place, "value": value} for place, value in enumerate(data)]


def zeros(data: list[Any], _: Any) -> list[Any]:
    return [0 for _ in data]


def alone(envelope: str, form: Form, requests: list[HandlerRequest]) -> list[Any]:
    return [run(envelope, echo, form, [request]).responses[0] for request in requests]


@given(requests=REQUESTS)
def test_merged_instances_are_answered_as_alone(requests: list[HandlerRequest]) -> None:
    cases: list[tuple[str, Form]] = [("kserve", "v1"), ("kserve", "explain"), ("json", "v1"), ("kserve", "raw")]
    for envelope, form in cases:
        merged = run(envelope, echo, form, requests)

        assert (merged.failure, merged.responses) == (None, alone(envelope, form, requests)), (envelope, form)


def numbers(data: list[Any], _: Any) -> list[Any]:
    return [one["data"] for one in data]


@given(requests=TENSORS)
def test_merged_tensors_are_answered_as_alone(requests: list[HandlerRequest]) -> None:
    for envelope in ("kserve", "json", "kservev2", "none", "body"):
        handle = numbers if envelope == "kservev2" else echo
        merged = run(envelope, handle, "v2", requests)

        each = [run(envelope, handle, "v2", [request]).responses[0] for request in requests]
        assert (merged.failure, merged.responses) == (None, each), envelope


@pytest.mark.parametrize("envelope", ["none", "body"])
@given(bodies=st.lists(st.binary(min_size=1), min_size=1, max_size=6))
def test_merged_bodies_are_answered_as_alone(envelope: str, bodies: list[bytes]) -> None:
    def handle(rows: list[Any], _: Any) -> list[bytes]:
        return [bytes(row if envelope == "body" else row["body"]) for row in rows]

    merged = run(envelope, handle, "raw", [whole(body) for body in bodies])

    assert [answer.body for answer in merged.responses] == bodies


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_results_are_cut_at_the_requests_own_ends(sizes: list[int]) -> None:
    requests = [instances(*[f"{index}/{place}" for place in range(size)]) for index, size in enumerate(sizes)]

    answers = documents("kserve", counting, "v1", requests)

    places = iter(range(sum(sizes)))
    assert answers == [
        {"predictions": [{"place": next(places), "value": f"{index}/{place}"} for place in range(size)]}
        for index, size in enumerate(sizes)
    ]


@given(size=st.integers(0, 6), given_back=st.integers(0, 6))
def test_too_few_or_too_many_results_are_nobodys(size: int, given_back: int) -> None:
    result = run("kserve", lambda *_: [0] * given_back, "v1", [instances(*range(size)), instances()])

    if size == given_back:
        assert result.failure is None
    else:
        assert result.failure == HandlerFailure(
            f"The handler must return one prediction per instance in a list: {size} expected, got {given_back}", 500
        )


INFINITE = whole(b'{"instances": [1e999]}')
DEEP = whole(b'{"instances": [%b%b]}' % (b"[" * 1100, b"]" * 1100))
UNREAD = "The request body cannot be read: "


@pytest.mark.parametrize(
    ("envelope", "form", "bad", "status", "message"),
    [
        ("kserve", "v1", INFINITE, 400, UNREAD + "number is infinity when parsed as double (line 1, column 16)."),
        ("kserve", "v1", DEEP, 400, UNREAD + "depth limit exceeded (line 1, column 1039)."),
        ("kserve", "explain", json_request([]), 400, 'The request is not {"instances": [...]}.'),
        ("kservev2", "v1", INFINITE, 400, UNREAD + "number is infinity when parsed as double (line 1, column 16)."),
        ("json", "v1", instances(1, {"b64": "abc"}), 400, 'The "b64" in instance 1 is not base64: Incorrect padding.'),
        ("json", "v1", instances({"b64": 5}), 400, 'The "b64" in instance 0 is not text; it takes base64.'),
        ("json", "raw", instances({"b64": None}), 400, 'The "b64" in instance 0 is not text; it takes base64.'),
        ("json", "v1", instances({"x": {"b64": "!"}}), 400,
         'The "b64" in "x" of instance 0 is not base64: Only base64 data is allowed.'),
        ("kserve", "v2", tensor_request(a=[1, 2], b=[1]), 422,
         'The inputs must have as many rows each: "a" has 2, "b" has 1.'),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_read_is_refused_and_the_others_are_served(
    envelope: str, form: Form, bad: HandlerRequest, status: int, message: str
) -> None:
    good = tensor_request(a=[1, 2]) if form == "v2" else instances("a", "b")
    (served,) = run(envelope, zeros, form, [good]).responses
    refused = HandlerResponse(message.encode(), status, REFUSAL)

    assert run(envelope, zeros, form, [good, bad, good]).responses == [served, refused, served]
    assert run(envelope, zeros, form, [bad]).responses == [refused]


@pytest.mark.parametrize("envelope", ["none", "kservev2"])
def test_a_handler_of_tensors_may_take_inputs_with_different_numbers_of_rows(envelope: str) -> None:
    result = run(envelope, zeros, "v2", [tensor_request(a=[1, 2], b=[1])])

    assert [answer.status for answer in result.responses] == [200]


INFER = json_request({"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}]})


@pytest.mark.parametrize(
    ("envelope", "understood", "message"),
    [
        ("kserve", instances(1), "requests with and without instances came together"),
        ("kservev2", INFER, "requests with and without tensors came together"),
    ],
)
def test_raw_requests_that_are_understood_are_not_mixed_with_others(
    envelope: str, understood: HandlerRequest, message: str
) -> None:
    """What a handler sees of a request is nobody else's to choose."""
    other = json_request({"image": 1})

    assert run(envelope, zeros, "raw", [understood, other]).failure == HandlerFailure(message, 500)
    assert [run(envelope, zeros, "raw", [one] * 2).failure for one in (understood, other)] == [None, None]
