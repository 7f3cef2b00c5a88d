"""Ask a served model by each protocol, and compare what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import grpc
import numpy as np

from data_plane.protocol.v2 import grpc as grpc_form
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.document import JSON_LENGTH
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from tests.models.case import Arrays, Case, Outputs, Step
from tests.support.runtimes import Request, Runtime
from tests.support.v2_rest import decode_response, encode_request

ROUNDING = 1e-5  # of the largest value: torch computes as the server has it optimized, and in its order of sums

Ask = Callable[[Runtime, Case, Arrays], Outputs]


def by_v1(runtime: Runtime, case: Case, inputs: Arrays) -> Outputs:
    """Rows go as one instance each, anything else as one instance."""
    plain = {name: _text(array.tolist()) for name, array in inputs.items()}
    rows = (
        [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)] if case.are_rows else [plain]
    )
    answer = runtime.predict(case.name, {"instances": rows})
    assert answer.status == 200, answer.body
    predictions = answer.document["predictions"]
    names = list(case.steps[0].outputs)
    columns = predictions if len(names) > 1 else [{names[0]: one} for one in predictions]
    if not case.are_rows:
        (only,) = columns
        return dict(only)
    return {name: [row[name] for row in columns] for name in columns[0]}


def by_json(runtime: Runtime, case: Case, inputs: Arrays) -> Outputs:
    return _by_rest(runtime, case, inputs, binary=False)


def by_binary(runtime: Runtime, case: Case, inputs: Arrays) -> Outputs:
    return _by_rest(runtime, case, inputs, binary=True)


def by_grpc(runtime: Runtime, case: Case, inputs: Arrays) -> Outputs:
    request = TensorRequest(_tensors(inputs))
    with grpc.insecure_channel(f"127.0.0.1:{runtime.grpc_port}") as channel:
        method = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            pb.ModelInferRequest.SerializeToString,
            pb.ModelInferResponse.FromString,
        )
        return _outputs(grpc_form.response_from_proto(method(grpc_form.request_to_proto(request, case.name))))


PROTOCOLS: Mapping[str, Ask] = {"v1": by_v1, "v2 JSON": by_json, "v2 binary": by_binary, "gRPC": by_grpc}


def walk(runtime: Runtime, case: Case, ask: Ask) -> list[Outputs]:
    """Make the calls in a row; what a client carries comes from the server's own outputs."""
    answers: list[Outputs] = []
    for step in case.steps:
        carried = {
            name: np.array(answers[-1][output], step.inputs[name].dtype)
            for name, output in case.carried.items()
            if answers
        }
        answers.append(ask(runtime, case, {**step.inputs, **carried}))
    return answers


def expected(step: Step, protocol: str) -> Outputs:
    """What a protocol can carry of the outputs: only v1 carries dictionaries."""
    return {name: one for name, one in step.outputs.items() if protocol == "v1" or isinstance(one, np.ndarray)}


def differs(found: Outputs, wanted: Outputs) -> str:
    """In what the outputs differ; empty if they are equal."""
    if found.keys() != wanted.keys():
        return f"outputs {sorted(found)} instead of {sorted(wanted)}"
    return "; ".join(filter(None, (_differs(name, found[name], wanted[name]) for name in wanted)))


def _differs(name: str, found: Any, wanted: Any) -> str:
    if isinstance(wanted, list):
        return (
            _differs(name, _numbers(found), _numbers(wanted)) if _keys(found) == _keys(wanted) else f"{name}: its keys"
        )
    array = np.array(found, wanted.dtype) if isinstance(found, list) and wanted.dtype != object else np.array(found)
    if array.shape != wanted.shape or (isinstance(found, np.ndarray) and found.dtype != wanted.dtype):
        return f"{name}: {array.dtype} {array.shape} instead of {wanted.dtype} {wanted.shape}"
    if wanted.dtype.kind != "f":
        same = [_bytes(one) for one in array.flat] == [_bytes(one) for one in wanted.flat]
        return "" if same else f"{name}: its values"
    largest = float(np.abs(wanted).max(initial=0))
    return "" if np.allclose(array, wanted, rtol=0, atol=ROUNDING * largest) else f"{name}: its values"


def _keys(rows: Any) -> list[list[str]]:
    return [list(row) for row in rows]


def _numbers(rows: Any) -> np.ndarray[Any, Any]:
    return np.array([list(row.values()) for row in rows], np.float32)


def _by_rest(runtime: Runtime, case: Case, inputs: Arrays, *, binary: bool) -> Outputs:
    request = TensorRequest(_tensors(inputs), parameters={"binary_data_output": True} if binary else {})
    body, json_length = encode_request(request, binary=binary)
    headers = ((JSON_LENGTH.decode(), str(json_length)),) if json_length is not None else ()
    answer = runtime.send(Request("POST", f"/v2/models/{case.name}/infer", body, headers))
    assert answer.status == 200, answer.body
    length = answer.headers.get(JSON_LENGTH.decode())
    return _outputs(decode_response(answer.body, int(length) if length else None))


def _tensors(inputs: Arrays) -> tuple[Tensor, ...]:
    return tuple(Tensor.from_numpy(name, array) for name, array in inputs.items())


def _outputs(response: TensorResponse) -> Outputs:
    return {tensor.name: tensor.data for tensor in response.outputs}


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
