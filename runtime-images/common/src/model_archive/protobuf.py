"""Reads protobuf's messages, such as an ONNX file, without their schema: only what is asked for is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final

from model_archive.limits import MAX_CHECKED, MAX_FIELDS

GRAPH: Final = 7
"""The field of onnx.proto's ModelProto that every model has."""
_VARINT, _DELIMITED, _SIZES = 0, 2, {1: 8, 5: 4}
_LONGEST_VARINT, _NEGATIVE = 10, 1 << 63


class Unreadable(Exception):
    """The file does not say what is asked for, or not in the form that is read here."""


class Fields:
    """Reads the fields of protobuf's messages in a stream, as many as there may be in all."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = MAX_FIELDS

    def of(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the number of each field of a message, and where its value starts and ends."""
        while start < end:
            tag, first = self._varint(start)
            kind = tag & 7
            if kind == _VARINT:
                _, start = self._varint(first)
            elif kind == _DELIMITED:
                size, first = self._varint(first)
                start = first + size
            else:
                start = first + _SIZES[kind]
            self._left -= 1
            if start > end or self._left < 0:
                raise Unreadable
            yield tag >> 3, first, start

    def all(self, start: int, end: int, number: int) -> list[tuple[int, int]]:
        """Return where the values of one field are."""
        return [(first, last) for found, first, last in self.of(start, end) if found == number]

    def text(self, start: int, end: int, number: int) -> str:
        """Return a field that is a text."""
        ((first, last), *_) = self.all(start, end, number)
        self._stream.seek(first)
        return self._stream.read(min(last - first, MAX_CHECKED)).decode()

    def numbers(self, start: int, end: int, number: int) -> list[int]:
        """Return the values of a field that is a number; one that is negative is -1."""
        found = (self._varint(first)[0] for first, _ in self.all(start, end, number))
        return [value if value < _NEGATIVE else -1 for value in found]

    def _varint(self, start: int) -> tuple[int, int]:
        """Return a number, and where it ends."""
        self._stream.seek(start)
        value = 0
        for index, byte in enumerate(self._stream.read(_LONGEST_VARINT)):
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value, start + index + 1
        raise Unreadable
