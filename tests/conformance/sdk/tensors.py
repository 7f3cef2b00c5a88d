"""`protocol.infer_type`: tensors, requests and responses."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
from typing import Any

import numpy as np

from tests.conformance.sdk.case import Sdk, case, cases, table

_TYPES: dict[str, Any] = {
    "BOOL": np.array([[True, False]]),
    **{kind: np.array([[1, 2]], kind.lower()) for kind in (
        "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")},
    "FP16": np.array([[0.5, -2]], np.float16),
    "FP32": np.array([[1.5, -2]], np.float32),
    "FP64": np.array([[1.5, -2]], np.float64),
    "BYTES": np.array([[b"a", "ä"]], object),
}  # fmt: skip
_RAW = np.array([1, 2], np.int64).tobytes()


def _kinds(sdk: Sdk) -> tuple[Any, Any]:
    types = sdk("protocol.infer_type")
    return types.InferInput, types.InferOutput


def _body(document: Any, raw: bytes = b"") -> tuple[bytes, int]:
    text = json.dumps(document).encode()
    return text + raw, len(text)


# --- InferInput and InferOutput alike

for _kind in ("InferInput", "InferOutput"):

    def _made(sdk: Sdk, *given: Any, kind: str = _kind, **named: Any) -> Any:
        return getattr(sdk("protocol.infer_type"), kind)(*given, **named)

    def _from_array(sdk: Sdk, datatype: str, array: Any, binary: bool, made: Any = _made) -> Any:
        one = made(sdk, "x", list(array.shape), datatype)
        one.set_data_from_numpy(array, binary_data=binary)
        return one

    def _changed(sdk: Sdk, made: Any = _made) -> Any:
        one = made(sdk, "x", [1], "INT64", [1])
        one.data, one.shape, one.parameters = [2, 3], [2], {"a": 1}
        return one

    def _equal(sdk: Sdk, made: Any = _made) -> list[bool]:
        one = made(sdk, "x", [1], "INT64", [1], {"a": 1})
        others = (
            ("x", [1], "INT64", [1], {"a": 1}), ("y", [1], "INT64", [1], {"a": 1}), ("x", [2], "INT64", [1], {"a": 1}),
            ("x", [1], "INT32", [1], {"a": 1}), ("x", [1], "INT64", [2], {"a": 1}), ("x", [1], "INT64", [1], None),
        )  # fmt: skip
        return [*(one == made(sdk, *other) for other in others), one == 7]

    cases(
        _kind, *(f"{_kind}.{name}" for name in ("name", "shape", "datatype", "data", "parameters")),
        keeps_what_it_is_given=lambda sdk, made=_made: made(sdk, "x", [1, 2], "FP32", [[1.5, 2]], {"a": 1}),
        needs_no_data=lambda sdk, made=_made: made(sdk, "x", [1], "INT8"),
        writes_its_datatype_in_capitals=lambda sdk, made=_made: made(sdk, "x", [1], "int8", [1]),
        can_be_changed=_changed,
        equals_one_with_the_same_content=_equal,
    )  # fmt: skip
    cases(
        f"{_kind}.to_dict",
        has_all_but_raw_data=lambda sdk, made=_made: made(sdk, "x", [1], "INT8", [1], {"a": 1}).to_dict(),
    )
    table(
        f"{_kind}.as_numpy",
        rows={
            "makes an array of a list": ("x", [2, 2], "FP32", [1, 2, 3, 4.5]),
            "makes an array of a nested list": ("x", [2, 2], "INT64", [[1, 2], [3, 4]]),
            "makes an array of text": ("x", [2], "BYTES", ["a", "ä"]),
            "makes an array of FP16": ("x", [2], "FP16", [0.5, 2]),
            "makes NaN of null": ("x", [3], "FP32", [1, None, 2.5]),
            "takes a tuple": ("x", [2], "FP64", (1.0, 2.5)),
            "takes a tuple of text": ("x", [2], "BYTES", ("a", "ä")),
            "takes numpy's numbers": ("x", [2, 1], "INT64", [[one] for one in np.array([1, 2])]),
            "takes numpy's text": ("x", [2], "BYTES", list(np.array(["a", "bcd"]))),
            "takes rows that are arrays": ("x", [2, 2], "FP32", list(np.array([[1, 2], [3, 4.5]]))),
            "takes whole numbers that are written as fractions": ("x", [2], "INT64", [1.0, 2.0]),
            "takes 0 and 1 as BOOL": ("x", [2], "BOOL", [1, 0]),
            "refuses an unknown datatype": ("x", [1], "INT7", [1]),
            "refuses data of another size than its shape": ("x", [3], "INT64", [1, 2]),
            "refuses text as numbers": ("x", [1], "INT64", ["a"]),
        },
        run=lambda sdk, row, made=_made: made(sdk, *row).as_numpy(),
    )
    for _binary in (True, False):
        table(
            f"{_kind}.set_data_from_numpy", f"{_kind}.as_numpy",
            rows={f"takes {kind} as {'raw bytes' if _binary else 'JSON'}": kind for kind in _TYPES},
            run=lambda sdk, kind, build=_from_array, binary=_binary: (
                (one := build(sdk, kind, _TYPES[kind], binary)).parameters, one.as_numpy()),
        )  # fmt: skip
    table(
        f"{_kind}.set_data_from_numpy",
        rows={
            "refuses another datatype": ("FP32", [2], np.zeros(2, np.float64)),
            "refuses another shape": ("FP32", [2], np.zeros(3, np.float32)),
            "refuses what is not an array": ("FP32", [2], [1.0, 2.0]),
            "takes text of numpy's own type": ("BYTES", [1], np.array([b"ab"])),
            "takes dates": ("BYTES", [1], np.array(["2024-02-03T04:05:06"], "datetime64[s]")),
            "takes dates in an array of objects": ("BYTES", [1], np.array([datetime.datetime(2024, 2, 3)], object)),
            "takes an empty array": ("INT64", [0], np.zeros(0, np.int64)),
            "takes an empty array of text": ("BYTES", [0], np.zeros(0, object)),
        },
        run=lambda sdk, row, made=_made: _both_ways(lambda: made(sdk, "x", row[1], row[0]), row[2]),
    )
    cases(
        f"{_kind}.set_data_from_numpy",
        refuses_bytes_that_are_no_text_as_JSON=lambda sdk, build=_from_array: build(
            sdk, "BYTES", np.array([b"\xff"], object), False
        ),
    )


def _both_ways(make: Any, array: Any) -> Any:
    """As raw bytes and as JSON: the array that comes out, and the data of the latter."""
    found: list[Any] = []
    for binary in (True, False):
        one = make()
        try:
            one.set_data_from_numpy(array, binary_data=binary)
            found.append([one.as_numpy(), None if binary else one.data])
        except Exception as error:  # noqa: BLE001 - it is the outcome
            found.append(type(error).__name__)
    return found


def _as_string(sdk: Sdk, datatype: str, data: Any) -> Any:
    return _kinds(sdk)[0]("x", [1], datatype, data).as_string()


table(
    "InferInput.as_string",
    rows={
        "gives rows of bytes as text": ("BYTES", [[b"a", b"b"]]),
        "gives a flat list of text as text": ("BYTES", ["a"]),
        "refuses numbers": ("INT8", [1]),
    },
    run=lambda sdk, row: _as_string(sdk, *row),
)


# --- requests


def _request(sdk: Sdk, *inputs: Any, **more: Any) -> Any:
    types = sdk("protocol.infer_type")
    made = [types.InferInput(*one) if isinstance(one, tuple) else one for one in inputs]
    return types.InferRequest("m", made or [types.InferInput("x", [2], "INT64", [1, 2])], "7", **more)


def _raw_input(sdk: Sdk, array: Any = _TYPES["FP32"], datatype: str = "FP32") -> Any:
    one = _kinds(sdk)[0]("x", list(array.shape), datatype)
    one.set_data_from_numpy(array)
    return one


def _wanted(sdk: Sdk, name: str, parameters: Any = None) -> Any:
    return sdk("protocol.infer_type").RequestedOutput(name, parameters)


cases(
    "InferRequest",
    keeps_what_it_is_given=lambda sdk: _request(
        sdk, parameters={"a": 1}, request_outputs=[_wanted(sdk, "y")], model_version="2"
    ),
    takes_raw_inputs=lambda sdk: _request(sdk, ("x", [2], "INT64"), raw_inputs=[_RAW]).inputs[0].as_numpy(),
    equals_one_with_the_same_content=lambda sdk: [
        _request(sdk) == _request(sdk),
        _request(sdk) == _request(sdk, parameters={"a": 1}),
        _request(sdk) == _request(sdk, ("x", [1], "INT64", [1])),
        _request(sdk) == 7,
    ],
)
cases(
    "InferRequest.get_input_by_name",
    finds_the_input=lambda sdk: _request(sdk).get_input_by_name("x"),
    gives_None_where_there_is_none=lambda sdk: _request(sdk).get_input_by_name("y"),
)
cases("InferRequest.to_dict", has_all_but_raw_data=lambda sdk: _request(sdk, parameters={"a": 1}).to_dict())
cases(
    "InferRequest.use_binary_outputs",
    is_a_parameter_over_HTTP=lambda sdk: [
        _request(sdk, parameters=one).use_binary_outputs for one in (None, {}, {"binary_data_output": True})
    ],
    is_whether_inputs_are_raw_over_gRPC=lambda sdk: [
        _request(sdk, ("x", [2], "INT64"), raw_inputs=raw, from_grpc=True, parameters=parameters).use_binary_outputs
        for raw in (None, [_RAW])
        for parameters in (None, {"binary_data_output": True})
    ],
)
cases(
    "InferRequest.to_rest",
    is_a_document=lambda sdk: _request(sdk, parameters={"a": 1}, request_outputs=[_wanted(sdk, "y")]).to_rest(),
    makes_an_id=lambda sdk: sdk.InferRequest("m", [sdk.InferInput("x", [1], "INT64", [1])]).to_rest(),
    sends_raw_inputs_as_they_are=lambda sdk: _reread(sdk, _request(sdk, _raw_input(sdk)).to_rest()),
    sends_an_array_as_a_flat_list=lambda sdk: _request(sdk, ("x", [1, 2], "INT64", np.array([[1, 2]]))).to_rest(),
    refuses_an_input_without_data=lambda sdk: _request(sdk, ("x", [1], "INT64")).to_rest(),
    with_FP16_as_JSON=lambda sdk: _request(sdk, ("x", [1], "FP16", [0.5])).to_rest(),
    sends_FP16_as_raw_bytes=lambda sdk: _reread(sdk, _request(sdk, _raw_input(sdk, _TYPES["FP16"], "FP16")).to_rest()),
    sends_the_parameters_of_inputs=lambda sdk: _request(sdk, ("x", [1], "INT64", [1], {"a": "b"})).to_rest(),
)


def _reread(sdk: Sdk, sent: tuple[Any, int]) -> Any:
    """What the other side reads; the order of members in JSON is nobody's business."""
    body, length = sent
    return json.loads(body[:length]), body[length:]


def _read_request(sdk: Sdk, document: Any, raw: bytes = b"") -> Any:
    return sdk("protocol.infer_type").InferRequest.from_bytes(*_body(document, raw), "m")


_INPUT = {"name": "x", "shape": [2], "datatype": "INT64", "data": [1, 2]}
_RAW_INPUT = {"name": "x", "shape": [2], "datatype": "INT64", "parameters": {"binary_data_size": 16}}
table(
    "InferRequest.from_bytes",
    rows={
        "reads a document": ({"inputs": [_INPUT]}, b""),
        "reads id, parameters and outputs": (
            {"id": "7", "inputs": [_INPUT], "parameters": {"a": 1}, "outputs": [{"name": "y"}]}, b"",
        ),
        "refuses data that is missing": ({"inputs": [{"name": "x", "shape": [1], "datatype": "INT8"}]}, b""),
        "refuses a document without inputs": ({}, b""),
        "reads FP16 as JSON": ({"inputs": [{"name": "x", "shape": [1], "datatype": "FP16", "data": [0.5]}]}, b""),
        "refuses a tensor of more bytes than there are": ({"inputs": [_RAW_INPUT]}, b"1234"),
    },
    run=lambda sdk, row: _read_request(sdk, *row),
)  # fmt: skip
cases(
    "InferRequest.from_bytes",
    reads_raw_inputs=lambda sdk: (
        (one := _read_request(sdk, {"inputs": [_RAW_INPUT]}, _RAW).inputs[0]).data, one.as_numpy()
    ),
    reads_FP16_as_raw_bytes=lambda sdk: _read_request(
        sdk,
        {"inputs": [{"name": "x", "shape": [2], "datatype": "FP16", "parameters": {"binary_data_size": 4}}]},
        np.array([0.5, 2], np.float16).tobytes(),
    ).inputs[0].as_numpy(),
    refuses_what_is_no_JSON=lambda sdk: sdk.InferRequest.from_bytes(b"{", 1, "m"),
)  # fmt: skip


def _over_grpc(sdk: Sdk, request: Any) -> Any:
    back = sdk.InferRequest.from_grpc(request.to_grpc())
    return [back.id, back.model_name, back.from_grpc, back.use_binary_outputs, [
        (one.name, one.shape, one.datatype, one.as_numpy()) for one in back.inputs
    ]]  # fmt: skip


cases(
    "InferRequest.to_grpc", "InferRequest.from_grpc",
    survive_each_other=lambda sdk: _over_grpc(sdk, _request(sdk)),
    survive_each_other_with_raw_inputs=lambda sdk: _over_grpc(sdk, _request(sdk, _raw_input(sdk))),
    survive_each_other_with_text=lambda sdk: _over_grpc(sdk, _request(sdk, ("x", [1], "BYTES", ["a"]))),
    make_a_message=lambda sdk: _request(sdk, request_outputs=[_wanted(sdk, "y")]).to_grpc(),
    make_a_message_with_parameters=lambda sdk: _request(sdk, parameters={"a": 1, "b": "c", "d": True}).to_grpc(),
    refuse_an_unknown_datatype=lambda sdk: _request(sdk, ("x", [1], "INT7", [1])).to_grpc(),
    refuse_FP16_that_is_not_raw=lambda sdk: _request(sdk, ("x", [1], "FP16", [0.5])).to_grpc(),
)  # fmt: skip
cases(
    "InferRequest.as_dataframe",
    has_a_column_for_each_input=lambda sdk: _request(
        sdk, ("x", [2], "INT64", [1, 2]), ("t", [2], "BYTES", ["a", "b"])
    ).as_dataframe(),
)
cases(
    "RequestedOutput", "RequestedOutput.name", "RequestedOutput.parameters", "RequestedOutput.binary_data",
    says_whether_raw_bytes_are_wanted=lambda sdk: [
        _wanted(sdk, "y", parameters) for parameters in (None, {"binary_data": True}, {"binary_data": False, "a": 1})
    ],
    equals_one_with_the_same_content=lambda sdk: [_wanted(sdk, "y") == _wanted(sdk, one) for one in ("y", "z")],
)  # fmt: skip


@case("can be changed", "RequestedOutput.parameters")
def _change(sdk: Sdk) -> Any:
    one = _wanted(sdk, "y")
    one.parameters = {"a": 1}
    return one


# --- responses


def _response(sdk: Sdk, *outputs: Any, **more: Any) -> Any:
    types = sdk("protocol.infer_type")
    made = [types.InferOutput(*one) for one in outputs or [("y", [2], "INT64", [1, 2])]]
    return types.InferResponse("7", "m", made, **more)


cases(
    "InferResponse",
    keeps_what_it_is_given=lambda sdk: _response(sdk, model_version="2", parameters={"a": 1}),
    takes_raw_outputs=lambda sdk: _response(sdk, ("y", [2], "INT64"), raw_outputs=[_RAW]).outputs[0].as_numpy(),
    equals_one_with_the_same_content=lambda sdk: [
        _response(sdk) == _response(sdk),
        _response(sdk) == _response(sdk, model_version="2"),
        _response(sdk) == _response(sdk, parameters={"a": 1}),
        _response(sdk) == 7,
    ],
)
cases(
    "InferResponse.get_output_by_name",
    finds_the_output=lambda sdk: _response(sdk).get_output_by_name("y"),
    gives_None_where_there_is_none=lambda sdk: _response(sdk).get_output_by_name("x"),
)
cases("InferResponse.to_dict", has_all_but_raw_data=lambda sdk: _response(sdk, parameters={"a": 1}).to_dict())
table(
    "InferResponse.to_rest",
    rows={
        "is a document": ([], {"parameters": {"a": 1}, "model_version": "2"}),
        "flattens nested data": ([("y", [2, 1], "INT64", [[1], [2]])], {}),
        "sends an array as a flat list": ([("y", [1, 2], "FP32", np.array([[1, 2.5]], np.float32))], {}),
        "sends text": ([("y", [2], "BYTES", ["a", "ä"])], {}),
        "sends bytes that are text": ([("y", [1], "BYTES", [b"a"])], {}),
        "sends a tuple": ([("y", [2], "FP64", (1.0, 2.5))], {}),
        "sends numpy's text": ([("y", [2], "BYTES", list(np.array(["a", "bcd"])))], {}),
        "flattens rows that are arrays": ([("y", [2, 2], "FP32", list(np.array([[1, 2], [3, 4.5]])))], {}),
        "sends dates": ([("y", [1], "BYTES", [datetime.datetime(2024, 2, 3, 4, 5, 6)])], {}),
        "refuses an output without data": ([("y", [1], "INT64")], {}),
        "with FP16 as JSON": ([("y", [1], "FP16", [0.5])], {}),
        "sends parameters of outputs": ([("y", [1], "INT64", [1], {"a": "b"})], {}),
    },
    run=lambda sdk, row: _response(sdk, *row[0], **row[1]).to_rest(),
)


def _answered(sdk: Sdk, wanted: Any, **more: Any) -> Any:
    outputs = [("a", [1], "INT64", [1]), ("b", [1], "INT64", [2])]
    return _response(sdk, *outputs, requested_outputs=[_wanted(sdk, *one) for one in wanted], **more).to_rest()


cases(
    "InferResponse.to_rest",
    sends_raw_outputs=lambda sdk: _reread(sdk, _response(sdk, use_binary_outputs=True).to_rest()),
    sends_the_requested_outputs=lambda sdk: _answered(sdk, [("b",)]),
    sends_each_output_as_it_is_wanted=lambda sdk: _reread(
        sdk, _answered(sdk, [("b", {"binary_data": True}), ("a", {"binary_data": False})])
    ),
    refuses_an_output_that_is_not_there=lambda sdk: _answered(sdk, [("c",)]),
    sends_FP16_as_raw_bytes=lambda sdk: _reread(
        sdk, _response(sdk, ("y", [1], "FP16", [0.5]), use_binary_outputs=True).to_rest()
    ),
)
_OUTPUT = {"name": "y", "shape": [2], "datatype": "INT64", "data": [1, 2]}
table(
    "InferResponse.from_rest",
    rows={
        "reads a document": {"id": "7", "model_name": "m", "model_version": "2", "outputs": [_OUTPUT]},
        "needs no id": {"model_name": "m", "outputs": [_OUTPUT]},
        "needs no name of a model": {"outputs": [_OUTPUT]},
        "reads parameters of any type": {
            "model_name": "m",
            "parameters": {"content_type": None, "headers": {"a": "b"}},
            "outputs": [{**_OUTPUT, "parameters": {"content_type": None, "labels": ["a"]}}],
        },
        "refuses a document without outputs": {"model_name": "m"},
    },
    run=lambda sdk, row: sdk.InferResponse.from_rest(row),
)
table(
    "InferResponse.from_bytes",
    rows={
        "reads a document": ({"id": "7", "model_name": "m", "outputs": [_OUTPUT]}, b""),
        "reads its parameters": ({"model_name": "m", "outputs": [_OUTPUT], "parameters": {"a": 1}}, b""),
        "refuses data that is missing": (
            {"model_name": "m", "outputs": [{"name": "y", "shape": [2], "datatype": "INT64"}]}, b"",
        ),
        "refuses a document without outputs": ({"model_name": "m"}, b""),
        "reads its model's version": ({"model_name": "m", "model_version": "2", "outputs": [_OUTPUT]}, b""),
    },
    run=lambda sdk, row: sdk.InferResponse.from_bytes(*_body(*row)),
)  # fmt: skip
cases(
    "InferResponse.from_bytes",
    reads_raw_outputs=lambda sdk: (
        (one := sdk.InferResponse.from_bytes(*_body(
            {"model_name": "m", "outputs": [{**_RAW_INPUT, "name": "y"}]}, _RAW)).outputs[0]).data, one.as_numpy()
    ),
    refuses_what_is_no_JSON=lambda sdk: sdk.InferResponse.from_bytes(b"{", 1),
)  # fmt: skip


def _response_over_grpc(sdk: Sdk, response: Any) -> Any:
    back = sdk.InferResponse.from_grpc(response.to_grpc())
    return [back.id, back.model_name, back.from_grpc, [
        (one.name, one.shape, one.datatype, one.as_numpy()) for one in back.outputs
    ]]  # fmt: skip


cases(
    "InferResponse.to_grpc", "InferResponse.from_grpc",
    survive_each_other=lambda sdk: _response_over_grpc(sdk, _response(sdk)),
    survive_each_other_with_raw_outputs=lambda sdk: _response_over_grpc(sdk, _response(sdk, use_binary_outputs=True)),
    survive_each_other_with_text=lambda sdk: _response_over_grpc(sdk, _response(sdk, ("y", [1], "BYTES", ["a"]))),
    make_a_message=lambda sdk: _response(sdk, parameters={"a": 1}, model_version="2").to_grpc(),
    send_FP16_as_raw_bytes=lambda sdk: _response_over_grpc(sdk, _response(sdk, ("y", [1], "FP16", [0.5]))),
    refuse_an_unknown_datatype=lambda sdk: _response(sdk, ("y", [1], "INT7", [1])).to_grpc(),
)  # fmt: skip

# --- what programs do with them: copies, parameters of gRPC, bodies byte by byte


def _of_body(sdk: Sdk) -> Any:
    return _read_request(sdk, {"id": "7", "inputs": [_RAW_INPUT]}, _RAW)


def _parameter(sdk: Sdk, **value: Any) -> Any:
    return sdk("protocol.grpc.grpc_predict_v2_pb2").InferParameter(**value)


cases(
    "InferRequest",
    can_be_copied_deeply=lambda sdk: [copy.deepcopy(one) == one for one in (_request(sdk), _of_body(sdk))],
    can_be_pickled=lambda sdk: [
        pickle.loads(pickle.dumps(one)).inputs[0].as_numpy() for one in (_request(sdk), _of_body(sdk))
    ],
    equals_one_that_was_sent=lambda sdk: (
        _of_body(sdk).inputs[0].as_numpy().tolist() == _request(sdk).inputs[0].as_numpy().tolist()
    ),
)
cases(
    "InferRequest.to_rest",
    is_byte_for_byte_the_same=lambda sdk: _request(
        sdk, _raw_input(sdk), ("z", [1], "INT64", [1], {"a": "b"}), parameters={"p": 1.5, "q": True, "r": "s"}
    ).to_rest(),
)
cases(
    "InferResponse.to_rest",
    is_byte_for_byte_the_same=lambda sdk: _answered(
        sdk, [("b", {"binary_data": True}), ("a", {"binary_data": False})], parameters={"p": 1}
    ),
    sends_requested_outputs_without_a_form_of_their_own_as_the_request_says=lambda sdk: _answered(
        sdk, [("b",)], use_binary_outputs=True
    ),
)
cases(
    "InferRequest.to_grpc",
    takes_parameters_of_gRPC=lambda sdk: _request(sdk, parameters={"a": _parameter(sdk, int64_param=1)}).to_grpc(),
    takes_parameters_of_inputs=lambda sdk: _request(sdk, ("x", [1], "INT64", [1], {"a": "b", "c": 1})).to_grpc(),
    takes_parameters_that_are_fractions=lambda sdk: _request(sdk, parameters={"a": 1.5}).to_grpc(),
    takes_parameters_that_are_lists=lambda sdk: _request(sdk, parameters={"a": [1]}).to_grpc(),
)
cases(
    "InferRequest.from_grpc",
    gives_parameters_of_inputs=lambda sdk: (
        sdk.InferRequest.from_grpc(
            _request(sdk, ("x", [1], "INT64", [1], {"a": "b", "c": 1, "d": True})).to_grpc()
        ).inputs
    ),
    gives_its_own_parameters=lambda sdk: sdk.InferRequest.from_grpc(_request(sdk, parameters={"a": 1}).to_grpc()),
)
cases(
    "InferResponse.from_grpc",
    gives_parameters=lambda sdk: sdk.InferResponse.from_grpc(_response(sdk, parameters={"a": 1}).to_grpc()),
)

# --- raw text

_TEXT = b"\3\0\0\0cat\4\0\0\0\xf0\x9f\x90\x95"
_NO_TEXT = b"\2\0\0\0\xff\xd8\0\0\0\0"


def _raw_bytes(kind: str, sdk: Sdk, raw: bytes) -> Any:
    """What a body with raw BYTES becomes, and what goes on from there."""
    described = {"name": "x", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": len(raw)}}
    if kind == "InferRequest":
        made = _read_request(sdk, {"id": "7", "inputs": [described]}, raw)
        one = made.inputs[0]
    else:
        made = sdk.InferResponse.from_bytes(*_body({"model_name": "m", "outputs": [described]}, raw))
        one = made.outputs[0]
    return [one.data, one.as_numpy(), one.parameters]


for _message in ("InferRequest", "InferResponse"):
    table(
        f"{_message}.from_bytes",
        rows={"reads raw text as text": _TEXT, "reads raw bytes that are not text": _NO_TEXT},
        run=lambda sdk, raw, message=_message: _raw_bytes(message, sdk, raw),
    )
    cases(
        f"{_message}.from_grpc",
        reads_raw_text_as_bytes=lambda sdk, message=_message: _raw_text_of_grpc(sdk, message),
    )


def _raw_text_of_grpc(sdk: Sdk, message: str) -> Any:
    pb = sdk("protocol.grpc.grpc_predict_v2_pb2")
    tensor = {"name": "x", "shape": [2], "datatype": "BYTES"}
    if message == "InferRequest":
        sent = pb.ModelInferRequest(model_name="m", inputs=[tensor], raw_input_contents=[_TEXT])
        return sdk.InferRequest.from_grpc(sent).inputs[0].as_numpy()
    sent = pb.ModelInferResponse(model_name="m", outputs=[tensor], raw_output_contents=[_TEXT])
    return sdk.InferResponse.from_grpc(sent).outputs[0].as_numpy()


@case("sends raw text of a body to a predictor", "InferRequest.to_rest")
def _text_goes_on(sdk: Sdk) -> Any:
    described = {"name": "x", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": len(_TEXT)}}
    return _read_request(sdk, {"id": "7", "inputs": [described]}, _TEXT).to_rest()
