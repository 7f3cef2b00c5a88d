"""Every way in which a request can be wrong, and what its sender reads."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest

from data_plane.errors import InvalidRequest
from data_plane.protocol.v2 import rest

GOOD = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}


def with_input(**fields: Any) -> bytes:
    return orjson.dumps({"inputs": [{**GOOD, **fields}]})


FORM = '{"inputs": [{"name": ..., "datatype": ..., "shape": [...], "data": [...]}]}'


def with_text(data: str, datatype: str = "FP32") -> bytes:
    return b'{"inputs": [{"name": "x", "shape": [-1], "datatype": "%s", "data": [%s]}]}' % (
        datatype.encode(),
        data.encode(),
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", f"The request body is empty; send {FORM}."),
        (b"{'inputs': []}", " (line 1, column 2). In JSON, texts and names have double quotes."),
        (b"@request.json", " It is the name of a file in place of its content; with curl, send the file with -T."),
        (b"\x1f\x8b\x08\0", " It is compressed by gzip; send it uncompressed."),
        (b'{"inputs": [', "The body is not valid JSON: unexpected end of data (line 1, column 13)."),
        (b"\xff\xfe", "The body is not valid JSON"),
        (with_text("NaN"), "The body is not valid JSON"),
        (with_text("Infinity"), "The body is not valid JSON"),
        (with_text("-Infinity"), "The body is not valid JSON"),
        (with_text("1e999"), "The body is not valid JSON: number is infinity"),
        (with_text("1" * 400), "The body is not valid JSON: number is infinity"),
        (with_text("01"), "The body is not valid JSON"),
        (with_text('"\\ud800"', "BYTES"), "The body is not valid JSON: no low surrogate"),
        (b"[" * 100_000, "The body is not valid JSON: depth limit exceeded"),
        (with_text("[" * 5000 + "]" * 5000), "The body is not valid JSON: depth limit exceeded"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "The body is not valid JSON: depth limit exceeded"),
    ],
    ids=[
        "empty", "single-quotes", "file-name", "gzip",
        "truncated", "not-text", "nan", "infinity", "minus-infinity", "huge", "many-digits", "leading-zero",
        "surrogate", "deep-lists", "deep-data", "deep-objects",
    ],
)  # fmt: skip
def test_a_body_that_is_not_json_is_refused(body: bytes, message: str) -> None:
    assert_refused(body, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", f"The JSON is not of the v2 protocol: Expected `object`, got `array`; send {FORM}."),
        (b"{}", "Object missing required field `inputs`"),
        (b'{"inputs": {}}', "Expected `array`, got `object` - at `$.inputs`"),
        (b'{"inputs": []}', "The request has no inputs"),
        (
            b'{"instances": [1]}',
            "The request is of the v1 protocol, and this path takes v2; send it to /v1/models/m:predict.",
        ),
        (b'{"inputs": [{"name": "x"}]}', "Object missing required field `datatype` - at `$.inputs[0]`"),
        (with_input(shape=[2.0]), "Expected `int`, got `float` - at `$.inputs[0].shape[0]`"),
        (with_input(parameters={"a": [1]}), "Expected `bool | int | float | str`, got `array`"),
        (orjson.dumps({"inputs": [GOOD, GOOD]}), 'Several inputs are called "x"; give each a name of its own.'),
        (
            orjson.dumps({"inputs": [GOOD], "outputs": [{"name": "y"}, {"name": "y"}]}),
            'Several requested outputs are called "y"',
        ),
        (
            orjson.dumps({"inputs": [GOOD], "parameters": {"binary_data_output": 1}}),
            'The parameter "binary_data_output" is 1; it takes true or false.',
        ),
        (
            orjson.dumps({"inputs": [GOOD], "outputs": [{"name": "y", "parameters": {"binary_data": "yes"}}]}),
            "The parameter \"binary_data\" is 'yes'; it takes true or false.",
        ),
    ],
    ids=[
        "list", "nothing", "inputs-object", "no-inputs", "v1", "no-datatype", "shape-float", "parameter-list",
        "inputs-twice", "outputs-twice", "flag-number", "flag-text",
    ],
)  # fmt: skip
def test_json_that_is_no_request_is_refused(body: bytes, message: str) -> None:
    assert_refused(body, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (with_input(datatype="FLOAT"), 'Tensor "x": there is no datatype "FLOAT"; use one of BOOL, UINT8,'),
        (with_input(data=None), 'Tensor "x" has no list "data", and no binary_data_size either'),
        (with_input(data="ab"), 'Tensor "x" has no list "data"'),
        (with_input(shape=[3]), 'Tensor "x": shape [3] has 3 elements, the data has 2; make them agree.'),
        (with_input(shape=[]), 'Tensor "x": shape [] has 1 elements, the data has 2'),
        (with_input(shape=[-2]), 'Tensor "x": shape [-2] has a negative size; only one may be -1'),
        (with_input(shape=[-1, 3]), "2 elements leave no whole size for the -1 in shape [-1, 3]"),
        (with_input(shape=[2**63, 2**63]), f"has {2**126} elements, the data has 2"),
        (with_input(shape=[0, 2**63], data=[]), "is too large"),
        (with_input(shape=[2] * 65), 'Tensor "x": its shape has 65 dimensions; at most 64 are served.'),
        (with_input(shape=[3, 2], data=[[1, 2, 3], [4, 5, 6]]), "its data is nested as [2, 3], its shape is [3, 2]"),
        (with_input(data=[[1], [2, 3]]), 'Tensor "x": its data is uneven at level 1 of nesting'),
        (with_input(data=[[[1], [2]], [[3], 4]]), "its data is uneven at level 2 of nesting"),
        (with_input(data=[1, [2]]), 'Tensor "x": element 1 is [2]; FP32 takes numbers from -3.4028235e+38'),
    ],
    ids=[
        "datatype", "no-data", "data-text", "too-few", "scalar", "negative", "unknown-uneven", "overflow",
        "overflow-of-none", "dimensions", "transposed", "ragged", "deeper", "list-among-numbers",
    ],
)  # fmt: skip
def test_shape_and_data_that_disagree_are_refused(body: bytes, message: str) -> None:
    assert_refused(body, message)


@pytest.mark.parametrize(
    ("datatype", "data", "message"),
    [
        ("UINT8", "1, 256", "element 1 is 256; UINT8 takes whole numbers from 0 to 255."),
        ("UINT64", "18446744073709551616", "element 0 is 1.8446744073709552e+19; UINT64 takes whole numbers"),
        ("INT8", "-129", "element 0 is -129; INT8 takes whole numbers from -128 to 127."),
        ("INT64", "9223372036854775808", "element 0 is 9223372036854775808; INT64 takes"),
        ("INT64", "1, 1.5", "element 1 is 1.5; INT64 takes"),
        ("INT32", "0, true", "element 1 is True; INT32 takes"),
        ("FP32", "0, false", "element 1 is False; FP32 takes numbers from -3.4028235e+38 to 3.4028235e+38."),
        ("FP64", "null", "element 0 is None; FP64 takes numbers from -1.7976931e+308 to 1.7976931e+308."),
        ("FP32", "1e39", "element 0 is 1e+39; FP32 takes"),
        ("FP16", "65520", "element 0 is 65520; FP16 takes numbers from -65504 to 65504."),
        ("BF16", "3.4e38", "element 0 is 3.4e+38; BF16 takes numbers from -3.3895314e+38 to 3.3895314e+38."),
        ("BOOL", "true, 1", "element 1 is 1; BOOL takes true and false."),
        ("BYTES", '"a", 1', "element 1 is 1; BYTES takes strings."),
    ],
)
def test_values_that_the_datatype_cannot_hold_are_refused(datatype: str, data: str, message: str) -> None:
    assert_refused(with_text(data, datatype), f'Tensor "x": {message}')


BINARY = {"name": "x", "shape": [2], "datatype": "INT16"}


@pytest.mark.parametrize(
    ("size", "tail", "fields", "message"),
    [
        (4, b"abc", {}, "binary_data_size is 4, but 3 bytes are left after the JSON"),
        (4, b"abcde", {}, "1 bytes follow the last tensor's binary data"),
        (3, b"abc", {}, 'Tensor "x": 3 bytes of binary data; an element of INT16 has 2.'),
        (3, b"abc", {"datatype": "BF16"}, 'Tensor "x": 3 bytes of binary data; an element of BF16 has 2.'),
        (2, b"ab", {}, 'Tensor "x": shape [2] has 2 elements, the data has 1'),
        (-1, b"", {}, "binary_data_size is -1; it takes a number of bytes."),
        (4.0, b"abcd", {}, "binary_data_size is 4.0; it takes a number of bytes."),
        (4, b"abcd", {"data": [1, 2]}, 'Tensor "x" has data and binary_data_size; send one of them.'),
        (4, b"abcd", {"datatype": "INT"}, 'there is no datatype "INT"'),
        (2, b"\0\2", {"datatype": "BOOL"}, "the bytes of its binary data are neither 0 nor 1"),
        (3, b"\1\0\0", {"datatype": "BYTES"}, 'Tensor "x": its binary data ends within element 0'),
        (6, b"\1\0\0\0ab", {"datatype": "BYTES"}, "its binary data ends within element 1"),
        (6, b"\xff\xff\xff\xffab", {"datatype": "BYTES"}, "its binary data ends within element 0"),
    ],
    ids=[
        "short", "long", "half-an-element", "half-a-bf16", "too-few", "negative", "float", "both", "datatype",
        "not-bool", "cut-length", "cut-next-length", "cut-element",
    ],
)  # fmt: skip
def test_binary_data_that_does_not_fit_is_refused(size: Any, tail: bytes, fields: dict[str, Any], message: str) -> None:
    head = orjson.dumps({"inputs": [{**BINARY, **fields, "parameters": {"binary_data_size": size}}]})
    assert_refused(head + tail, message, len(head))


@pytest.mark.parametrize("json_length", [-1, 10_000])
def test_a_length_of_json_beyond_the_body_is_refused(json_length: int) -> None:
    assert_refused(with_input(), f"The header inference-header-content-length says {json_length}", json_length)


def test_binary_data_without_the_header_is_refused_with_the_headers_name() -> None:
    head = orjson.dumps({"inputs": [{**BINARY, "parameters": {"binary_data_size": 4}}]})
    assert_refused(head, "Without the header inference-header-content-length all of the body is JSON.")


def assert_refused(body: bytes, message: str, json_length: int | None = None) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        rest.decode_request(body, json_length, "m")
