"""The datatypes of the Open Inference Protocol, and what each is called elsewhere: the one table of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Datatype:
    """One datatype. What is empty does not exist."""

    name: str
    code: str
    """`struct`'s code for an element in an array, which is numpy's for the same little-endian memory."""
    contents: str
    """The field of gRPC's typed contents."""
    onnx: str
    torch: str
    has_wire_form: bool = False
    """Whether its elements in a buffer are not those of the array, so that a buffer is copied."""


DATATYPES = {
    each.name: each
    for each in (
        Datatype("BOOL", "?", "bool_contents", "bool", "bool"),
        Datatype("UINT8", "B", "uint_contents", "uint8", "uint8"),
        Datatype("UINT16", "H", "uint_contents", "uint16", "uint16"),
        Datatype("UINT32", "I", "uint_contents", "uint32", "uint32"),
        Datatype("UINT64", "Q", "uint64_contents", "uint64", "uint64"),
        Datatype("INT8", "b", "int_contents", "int8", "int8"),
        Datatype("INT16", "h", "int_contents", "int16", "int16"),
        Datatype("INT32", "i", "int_contents", "int32", "int32"),
        Datatype("INT64", "q", "int64_contents", "int64", "int64"),
        Datatype("FP16", "e", "", "float16", "float16"),
        Datatype("FP32", "f", "fp32_contents", "float", "float32"),
        Datatype("FP64", "d", "fp64_contents", "double", "float64"),
        Datatype("BF16", "f", "", "bfloat16", "bfloat16", has_wire_form=True),
        Datatype("BYTES", "", "bytes_contents", "string", "", has_wire_form=True),
    )
}
COPIED = tuple(each.name for each in DATATYPES.values() if each.has_wire_form)
