"""What a handler sends ahead of its result, by TorchServe's own function: in its own process."""

from __future__ import annotations

from typing import Any

import numpy as np
from ts.handler_utils.utils import send_intermediate_predict_response

from data_plane.protocol.v2.requests import TensorRequest
from data_plane.protocol.v2.tensors import Tensor
from tests.unit.torchserve_compat.running import run, tensor_request, whole
from torchserve_compat import tensors
from torchserve_compat.frames import HandlerFailure, Piece

ASKED = TensorRequest((Tensor.from_numpy("x", np.zeros(1)),))


def echo_in_pieces(rows: list[Any], context: Any) -> list[str]:
    """`body` → `1:body `, `2:body `, `end`."""
    bodies = [row["body"].decode() if isinstance(row, dict) else row for row in rows]
    for number in (1, 2):
        pieces = [f"{number}:{body} " for body in bodies]
        send_intermediate_predict_response(pieces, context.request_ids, "a piece", 200, context)
    return ["end"] * len(rows)


def test_requests_of_one_id_are_not_answered_together() -> None:
    result = run("none", echo_in_pieces, "raw", [whole(b"a", id="x"), whole(b"b", id="x")])

    assert result.failure == HandlerFailure("requests of the same id came together", 500)


def test_pieces_for_tensors_are_tensors() -> None:
    pieces: list[Piece] = []

    def counts(rows: list[Any], context: Any) -> list[Any]:
        for piece in ("a word", {"text": "b", "ids": [1, 2]}):
            send_intermediate_predict_response([piece], context.request_ids, "a piece", 200, context)
        return [3.5]

    run("kserve", counts, "v2", [tensor_request(x=["a"])], pieces.append)

    answers = [tensors.response(piece.response.body, ASKED, "m", "1") for piece in pieces]
    assert [{one.name: np.asarray(one.data).tolist() for one in answer.outputs} for answer in answers] == [
        {"predictions": [b"a word"]},
        {"text": [b"b"], "ids": [[1, 2]]},
    ]
