"""A running batch: who is in it at each step of the handler, what the handler sees, and what each client gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ts.handler_utils.utils import send_intermediate_predict_response

from data_plane.protocol.v2.requests import TensorRequest
from data_plane.protocol.v2.tensors import Tensor
from tests.unit.torchserve_compat.running import context, json_request, tensor_request, whole
from torchserve_compat import frames, tensors
from torchserve_compat.frames import (
    Form,
    HandlerBatch,
    HandlerRequest,
    HandlerResponse,
    HandlerResult,
    Piece,
)
from torchserve_compat.worker.continuous import RunningBatch

TEXT = "text/plain; charset=utf-8"
MORE = ("ts_stream_next", "true")
ASKED = TensorRequest((Tensor.from_numpy("x", np.zeros(1)),))


class Counting:
    """A handler that answers each request with as many numbers as it asks for. It keeps what it saw."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.ids: list[list[str]] = []
        self.told: dict[str, int] = {}
        self.wanted: dict[str, int] = {}

    def __call__(self, rows: list[Any], ctx: Any) -> list[str]:
        ids = list(ctx.request_ids.values())
        self.rows.append(rows)
        self.ids.append(ids)
        for name, row in zip(ids, rows, strict=True):
            if row:
                self.wanted[name] = row["body"]["words"]
            self.told[name] = self.told.get(name, 0) + 1
        ctx.stopping_criteria = [lambda _, name=name: self.told[name] == self.wanted[name] for name in ids]
        return [str(self.told[name]) for name in ids]


class Running:
    """A batch, its handler, and the context that both share."""

    def __init__(self, handle: Any, *, only_bodies: bool = False) -> None:
        self.batch: RunningBatch[int] = RunningBatch(handle, only_bodies=only_bodies, decodes=True)
        self.context = context()

    def join(self, key: int, request: HandlerRequest, form: Form = "raw") -> HandlerResult | None:
        return self.batch.join(key, HandlerBatch(form, [request]))

    def step(self) -> dict[int, Any]:
        return dict(self.batch.step(self.context))


def words(number: int, id: str) -> HandlerRequest:  # noqa: A002
    return json_request({"words": number}, id)


def piece(id: str, text: str) -> Piece:  # noqa: A002
    return Piece(id, HandlerResponse(text.encode(), 200, TEXT, [MORE]))


def test_behind_the_envelope_body_a_row_is_the_body_and_later_none() -> None:
    rows: list[Any] = []

    def keep(given: list[Any], ctx: Any) -> list[str]:
        rows.extend(given)
        ctx.stopping_criteria = [lambda _: False]
        return ["."]

    running = Running(keep, only_bodies=True)
    running.join(1, whole(b"text"))
    running.step()
    running.step()

    assert rows == [bytearray(b"text"), None]


def test_requests_of_one_id_are_told_apart() -> None:
    handler = Counting()
    running = Running(handler)
    for key in (1, 2, 3):
        running.join(key, words(1, "a"))

    assert [said.responses[0].body for said in running.step().values()] == [b"1", b"1", b"1"]
    assert handler.ids == [["a#1", "a#2", "a#3"]]


def test_a_request_that_comes_again_is_not_the_one_that_was_broken_off() -> None:
    handler = Counting()  # which forgets nobody
    running = Running(handler)
    running.join(1, words(9, "a"))
    running.step()
    running.batch.leave(1)
    running.join(1, words(9, "a"))

    assert running.step() == {1: piece("a", "1")}


@pytest.mark.parametrize("broken", ["criterion", "result"])
def test_what_fails_for_one_fails_alone(broken: str) -> None:
    def handle(rows: list[Any], ctx: Any) -> list[Any]:
        ctx.stopping_criteria = [lambda _: False, lambda _: 1 / 0 if broken == "criterion" else False]
        return ["a", {1, 2} if broken == "result" else "b"]

    running = Running(handle)
    running.join(1, words(1, "a"))
    running.join(2, words(1, "b"))
    said = running.step()

    assert said[1] == piece("a", "a")
    assert said[2].failure is not None
    assert len(running.batch) == 1


def test_a_handler_of_a_running_batch_sends_no_pieces_by_itself() -> None:
    def send(rows: list[Any], ctx: Any) -> list[str]:
        send_intermediate_predict_response(["a"], ctx.request_ids, "a piece", 200, ctx)
        return ["b"]

    running = Running(send)
    running.join(1, words(1, "a"))

    assert "returns each piece of a response" in running.step()[1].failure.message


def test_tensors_are_one_row_and_each_piece_is_tensors() -> None:
    rows: list[Any] = []

    def handle(given: list[Any], ctx: Any) -> list[Any]:
        rows.extend(given)
        ctx.stopping_criteria = [lambda _: False]
        return [{"text": "word", "ids": [1]}]

    running = Running(handle)
    running.join(1, tensor_request(prompt=["once"]), "v2")
    said = running.step()[1]

    assert rows == [{"body": "once"}]
    response = tensors.response(said.response.body, ASKED, "m", "1")
    assert {one.name: np.asarray(one.data).tolist() for one in response.outputs} == {"text": [b"word"], "ids": [[1]]}


def test_tensors_of_several_rows_are_refused_before_the_handler_sees_them() -> None:
    running = Running(Counting())

    refusal = running.join(1, tensor_request(prompt=["a", "b"]), "v2")

    assert refusal is not None
    assert refusal.responses == [
        HandlerResponse(b"A request to this model is one row; its inputs have 2.", 422, frames.REFUSAL)
    ]
    assert len(running.batch) == 0
