"""A handler called as its process calls it: frames in, frames out, with the context that TorchServe gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import orjson
from ts.context import Context

from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from torchserve_compat import tensors
from torchserve_compat.frames import Form, HandlerBatch, HandlerRequest, HandlerResult, Piece, RequestPart
from torchserve_compat.worker.calls import HandlerCalls
from torchserve_compat.worker.pieces import Emit

Handle = Callable[[Any, Any], Any]
MANIFEST = {"model": {"modelName": "m", "modelVersion": "1.0"}}


class Metrics:
    """As much of TorchServe's metrics as is touched."""

    request_ids: Any = None


def no_piece(piece: Piece) -> None:
    raise AssertionError(piece)


def context() -> Any:
    return Context("m", "/models/m", MANIFEST, 1, None, "0.12.0", metrics=Metrics())


def run(
    envelope: str, handle: Handle, form: Form, requests: Sequence[HandlerRequest], emit: Emit = no_piece
) -> HandlerResult:
    return HandlerCalls(handle, envelope).run(HandlerBatch(form, list(requests)), context(), emit)


def documents(envelope: str, handle: Handle, form: Form, requests: Sequence[HandlerRequest]) -> list[Any]:
    """The JSON of each answer; all must be answers."""
    result = run(envelope, handle, form, requests)
    assert result.failure is None, result.failure
    return [orjson.loads(answer.body) for answer in result.responses]


def json_request(document: object, id: str = "1", **headers: str) -> HandlerRequest:  # noqa: A002
    return whole(orjson.dumps(document), "application/json", id, **headers)


def instances(*values: object) -> HandlerRequest:
    return json_request({"instances": values})


def whole(body: bytes, content_type: str = "", id: str = "1", **headers: str) -> HandlerRequest:  # noqa: A002
    pairs = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return HandlerRequest(id, pairs, [RequestPart("body", content_type, body)])


def tensor_request(**arrays: Any) -> HandlerRequest:
    return v2_request(*(Tensor.from_numpy(name, np.asarray(value)) for name, value in arrays.items()))


def v2_request(*inputs: Tensor, **more: Any) -> HandlerRequest:
    """`more` are fields of a TensorRequest."""
    return tensors.frame(TensorRequest(inputs, **more), "1", ())


def responses(result: HandlerResult) -> list[TensorResponse]:
    """The response in each answer."""
    assert result.failure is None, result.failure
    asked = TensorRequest((Tensor.from_numpy("x", np.zeros(1)),))
    return [tensors.response(answer.body, asked, "m", "1") for answer in result.responses]


def outputs(result: HandlerResult) -> list[dict[str, Any]]:
    """The tensors of each answer, by name."""
    return [
        {tensor.name: (tensor.datatype, cast(Any, tensor.data).tolist()) for tensor in response.outputs}
        for response in responses(result)
    ]
