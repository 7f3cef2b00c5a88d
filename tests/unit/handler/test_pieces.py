"""What a handler sends ahead of its result, by TorchServe's own function."""

from __future__ import annotations

from typing import Any

import pytest
from ts.handler_utils.utils import send_intermediate_predict_response

from tests.unit.handler.running import instances, run, tensor_request, whole
from transformer_sdk.handler.frames import Failure, Form, Request


def echo_in_pieces(rows: list[Any], context: Any) -> list[str]:
    """`body` → `1:body 2:body end`."""
    bodies = [row["body"].decode() if isinstance(row, dict) else row for row in rows]
    for number in (1, 2):
        pieces = [f"{number}:{body} " for body in bodies]
        send_intermediate_predict_response(pieces, context.request_ids, "a piece", 200, context)
    return ["end"] * len(rows)


def test_pieces_go_in_front_of_the_result_each_to_its_request() -> None:
    result = run("none", echo_in_pieces, "raw", [whole(b"a", id="x"), whole("Grüße".encode(), id="y")])

    assert [answer.body.decode() for answer in result.answers] == ["1:a 2:a end", "1:Grüße 2:Grüße end"]


def test_pieces_of_one_batch_are_not_those_of_the_next() -> None:
    first, second = (run("none", echo_in_pieces, "raw", [whole(b"a", id="x")]) for _ in range(2))

    assert first.answers == second.answers


def test_requests_of_one_id_are_not_answered_together() -> None:
    result = run("none", echo_in_pieces, "raw", [whole(b"a", id="x"), whole(b"b", id="x")])

    assert result.failure == Failure("requests of the same id came together", 500)


@pytest.mark.parametrize(
    ("form", "request_"), [("v1", instances("a")), ("explain", instances("a")), ("v2", tensor_request(x=["a"]))]
)
def test_a_protocol_without_room_for_pieces_refuses(form: Form, request_: Request) -> None:
    failure = run("kserve", echo_in_pieces, form, [request_]).failure

    assert failure is not None
    assert (failure.status, failure.message.endswith("ask it by /predictions/<model>.")) == (501, True)
