"""Count the fields and elements of a serialized ModelInferRequest before it is parsed. Pure.

protobuf holds the interpreter lock while it parses a message: some hundred thousand parameters take seconds. A field
may take as few as two bytes, so the size of a message does not bound their number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_MESSAGE_ELEMENTS, MAX_MESSAGE_FIELDS, MAX_MESSAGE_NUMBERS
from data_plane.protocol.v2 import open_inference_pb2 as pb

_REQUEST = pb.ModelInferRequest
_TENSORS = (_REQUEST.INPUTS_FIELD_NUMBER, _REQUEST.OUTPUTS_FIELD_NUMBER)
_SHAPE = _REQUEST.InferInputTensor.SHAPE_FIELD_NUMBER
_CONTENTS = _REQUEST.InferInputTensor.CONTENTS_FIELD_NUMBER
_OF_FIXED_SIZE = (
    pb.InferTensorContents.FP32_CONTENTS_FIELD_NUMBER,
    pb.InferTensorContents.FP64_CONTENTS_FIELD_NUMBER,
    pb.InferTensorContents.BYTES_CONTENTS_FIELD_NUMBER,
)
_VARINT, _DELIMITED = 0, 2
_SIZES = {1: 8, 5: 4}  # bytes of a value, by fixed-size wire type
_LONGEST_VARINT = 10  # bytes
_CONTINUED = bytes(range(0x80, 0x100))  # all bytes of a varint but its last

# Number, wire type, and start and end of the value.
_Field = tuple[int, int, int, int]


def check(message: bytes) -> None:
    """Raise InvalidRequest for a message beyond the limits; a malformed message is not checked."""
    with contextlib.suppress(_Unparsable):
        _Counts(message).request()


class _Unparsable(Exception):
    """A field extends beyond its message; the parser reports the error."""


class _Counts:
    def __init__(self, message: bytes) -> None:
        self._message = message
        self._fields = self._elements = self._numbers = 0

    def request(self) -> None:
        for number, kind, start, end in _fields(self._message, 0, len(self._message)):
            self._add_field()
            if number in _TENSORS and kind == _DELIMITED:
                self._tensor(start, end)

    def _tensor(self, start: int, end: int) -> None:
        for number, kind, first, last in _fields(self._message, start, end):
            self._add_field()
            if number == _CONTENTS and kind == _DELIMITED:
                self._contents(first, last)
            elif number == _SHAPE:
                self._add_numbers(first, last)

    def _contents(self, start: int, end: int) -> None:
        for number, _, first, last in _fields(self._message, start, end):
            self._elements += 1
            _bound(self._elements, MAX_MESSAGE_ELEMENTS, "elements that are fields of their own", "Send raw contents")
            if number not in _OF_FIXED_SIZE:
                self._add_numbers(first, last)

    def _add_field(self) -> None:
        self._fields += 1
        _bound(self._fields, MAX_MESSAGE_FIELDS, "fields beside the contents of its tensors", "Send fewer tensors")

    def _add_numbers(self, start: int, end: int) -> None:
        self._numbers += len(self._message[start:end].translate(None, _CONTINUED))
        _bound(self._numbers, MAX_MESSAGE_NUMBERS, "whole numbers in typed contents", "Send raw contents")


def _fields(message: bytes, position: int, end: int) -> Iterator[_Field]:
    """Iterate over the fields between two positions; raises _Unparsable."""
    while position < end:
        tag, start = varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            _, position = varint(message, start)
        elif kind == _DELIMITED:
            length, start = varint(message, start)
            position = start + length
        else:
            position = start + _SIZES.get(kind, len(message))
        if position > end:
            raise _Unparsable
        yield tag >> 3, kind, start, position


def varint(message: bytes, position: int) -> tuple[int, int]:
    """Decode a varint (seven bits per byte, lowest first); return the number and its end."""
    number = 0
    for shift, byte in enumerate(message[position : position + _LONGEST_VARINT]):
        number |= (byte & 0x7F) << 7 * shift
        position += 1
        if byte < 0x80:
            break
    return number, position


def _bound(found: int, limit: int, what: str, cure: str) -> None:
    if found > limit:
        raise InvalidRequest(f"The message has more than {limit} {what}. {cure}, or several requests.")
