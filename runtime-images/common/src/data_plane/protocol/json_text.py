"""Read and write JSON texts of any size in pieces. Pure.

orjson and msgspec hold the interpreter lock for the whole call: while one thread decodes some megabytes, no other
thread runs, including the event loop's. Here each call processes one piece of the text, and other threads run between
two calls.

A text is cut at commas. For each window of the text, the first and last comma of each nesting level are known; the text
between two neighbouring commas of a level lies within one window, or is one value.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_JSON_CONTAINERS, MAX_JSON_DEPTH, ON_LOOP_BYTES

_WINDOW = 32 * 1024  # bytes that are scanned at a time
_WINDOWS = 4  # windows that are decoded at a time
_DEEPEST = 1024  # nesting depth that orjson accepts
_STRING_WEIGHT = 16  # cost of a byte of a small value, relative to a byte of a long string
_ITEMS = 16 * 1024  # elements that are written at a time
_SHORT = 16 * 1024 * 1024  # orjson takes some 20 ms for a string of that length with escapes
_FEW_COMMAS = 32 * 1024  # orjson takes at most 20 ms for the values between them, and 1 ms if they are numbers
_COUNTED = 256 * 1024  # bytes that are searched for commas at a time

_SPACE = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb'[ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\r\n]*:', re.DOTALL)
_raw_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def weight(text: bytes) -> int:
    """Return the cost of reading a text, in bytes of small values; a byte of a long string costs less.

    Of a text that is too large for the event loop in any case, the cost is the least possible.
    """
    if len(text) <= ON_LOOP_BYTES:
        return len(text)
    if len(text) > ON_LOOP_BYTES * _STRING_WEIGHT:  # too large for the event loop without a search for commas
        return len(text) // _STRING_WEIGHT + 1
    return max(len(text), text.count(b",") * _STRING_WEIGHT**2) // _STRING_WEIGHT


def is_short(text: bytes) -> bool:
    """Return whether one call decodes a text within milliseconds: it has few values, though they may be long."""
    if len(text) <= _WINDOW * _WINDOWS:
        return True
    if len(text) > _SHORT:
        return False
    commas = 0
    for start in range(0, len(text), _COUNTED):
        commas += text.count(b",", start, start + _COUNTED)
        if commas > _FEW_COMMAS:
            return False
    return True


def loads(text: bytes) -> Any:
    """Decode as orjson.loads does; raises InvalidRequest for too many or too deeply nested lists and objects."""
    if is_short(text):
        return orjson.loads(text)
    return loads_in_pieces(text)


def loads_in_pieces(text: bytes, window: int = _WINDOW) -> Any:
    """Decode as `loads` does, in pieces; `window` is in bytes."""
    reader = _JsonReader(text, window)
    if reader.containers > MAX_JSON_CONTAINERS:
        raise InvalidRequest(
            f"The JSON has {reader.containers} lists and objects; {MAX_JSON_CONTAINERS} are served in one request. "
            "Send several requests, or tensors flat or in binary form."
        )
    return reader.value(0, len(text), 0)


def members(text: bytes, window: int = _WINDOW) -> dict[str, bytes]:
    """Return the text of each member of the object in `text`; raises as `loads` does. Long values are not validated."""
    return _JsonReader(text, window).members()


def elements(text: bytes, window: int = _WINDOW) -> int:
    """Return the number of elements of the list that `text`, which must be valid JSON, begins with."""
    after = _SPACE.match(text, 1)
    if after and text[after.end() : after.end() + 1] == b"]":
        return 0
    return sum(one.commas for one in _windows(text, window)) + 1


def writable(items: Any) -> Any:
    """Return a list or array in a form for orjson; large ones are written here, in pieces."""
    return items if getattr(items, "size", len(items)) <= _ITEMS else orjson.Fragment(_written(items))


def _written(items: Any) -> bytes:
    """Write a list or array as JSON; an array may have several dimensions."""
    size = getattr(items, "size", len(items))
    if size <= _ITEMS:
        return orjson.dumps(items, option=orjson.OPT_SERIALIZE_NUMPY)
    if size >= _ITEMS * len(items):  # a row is a piece, or more
        return b"[%b]" % b",".join(map(_written, items))
    rows = _ITEMS * len(items) // size
    pieces = (items[start : start + rows] for start in range(0, len(items), rows))
    return b"[%b]" % b",".join(_written(piece)[1:-1] for piece in pieces)


class _JsonReader:
    """Reader of one text."""

    def __init__(self, text: bytes, window: int) -> None:
        self._text = text
        self._piece = window * _WINDOWS
        self._cuts: dict[int, list[int]] = defaultdict(list)
        self.containers = 0
        for one in _windows(text, window):
            self.containers += one.containers
            for level, place in one.cuts:
                self._cuts[level].append(place)

    def value(self, start: int, end: int, level: int) -> Any:
        """Return the value between these places, which is nested `level` deep."""
        start, end = self._trimmed(start, end)
        if end - start > self._piece:
            if level >= MAX_JSON_DEPTH:
                raise InvalidRequest(f"The JSON is nested more than {MAX_JSON_DEPTH} deep.")
            match self._brackets(start, end):
                case b"[]":
                    return self._list(start + 1, end - 1, level + 1)
                case b"{}":
                    return self._object(start + 1, end - 1, level + 1)
        return self._decoded(b"", start, end, b"")

    def members(self) -> dict[str, bytes]:
        start, end = self._trimmed(0, len(self._text))
        if self._brackets(start, end) != b"{}":
            raise _error("it is not an object", self._text, start)
        found: dict[str, bytes] = {}
        for first, last in self._parts(start + 1, end - 1, 1):
            if last - first > self._piece:
                name, value = self._named(first, last)
                found[name] = self._text[slice(*self._trimmed(value, last))]
                continue
            try:
                raws = _raw_members.decode(b"{%b}" % self._text[first:last])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise _error(str(error), self._text, first) from error
            found.update((name, bytes(raw)) for name, raw in raws.items())
        return found

    def _list(self, start: int, end: int, level: int) -> list[Any]:
        found: list[Any] = []
        for first, last in self._parts(start, end, level):
            if last - first > self._piece:
                found.append(self.value(first, last, level))
            else:
                found += self._decoded(b"[", first, last, b"]")
        return found

    def _object(self, start: int, end: int, level: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for first, last in self._parts(start, end, level):
            if last - first > self._piece:
                name, value = self._named(first, last)
                found[name] = self.value(value, last, level)
            else:
                found.update(self._decoded(b"{", first, last, b"}"))
        return found

    def _parts(self, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
        """Cut the contents of a list or object; a part longer than a piece is one element or member."""
        cuts = self._cuts[level]
        between = cuts[bisect.bisect_left(cuts, start) : bisect.bisect_left(cuts, end)]
        for before, last in itertools.pairwise((start - 1, *between, end)):
            if self._text[before + 1 : last].strip():
                yield before + 1, last
            elif between:
                raise _error("a value is missing", self._text, last)

    def _named(self, start: int, end: int) -> tuple[str, int]:
        """Return the name of a member and the start of its value."""
        key = _KEY.match(self._text, start, end)
        if key is None:
            raise _error("a member has no name", self._text, start)
        return self._decoded(b"", *key.span(1), b""), key.end()

    def _decoded(self, opening: bytes, start: int, end: int, closing: bytes) -> Any:
        try:
            return orjson.loads(b"%b%b%b" % (opening, self._text[start:end], closing))
        except orjson.JSONDecodeError as error:
            raise _error(error.msg, self._text, start + error.pos - len(opening)) from error

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        after = _SPACE.match(self._text, start, end)
        start = after.end() if after else start
        if self._text[end - 1 : end].isspace():
            end = start + len(self._text[start:end].rstrip())
        return start, end

    def _brackets(self, start: int, end: int) -> bytes:
        return self._text[start : start + 1] + self._text[end - 1 : end]


def _error(what: str, text: bytes, place: int) -> orjson.JSONDecodeError:
    """Return an error with the line and column in the whole text."""
    before = text[:place].decode("utf-8", "replace")
    return orjson.JSONDecodeError(what, before, len(before))


@dataclass(frozen=True, slots=True)
class _Window:
    """The structure of one window of a text."""

    cuts: list[tuple[int, int]]  # level, place
    commas: int  # of the outermost level
    containers: int  # that begin here


def _windows(text: bytes, size: int) -> Iterator[_Window]:
    """Scan a text window by window; raises JSONDecodeError for unbalanced or too deeply nested brackets."""
    import numpy as np  # only needed for large texts

    steps = np.zeros(256, np.int8)
    steps[list(b"[{")], steps[list(b"]}")] = 1, -1
    depth, within_text, escaped = 0, False, False
    for start in range(0, len(text), size):
        window, escaped = _without_escapes(text[start : start + size], escaped)
        codes = np.frombuffer(window, np.uint8)
        step, is_comma = steps[codes], codes == ord(",")
        if within_text or b'"' in window:
            inside = np.bitwise_xor.accumulate(codes == ord('"')) ^ within_text
            within_text = bool(inside[-1])
            step[inside] = 0
            is_comma &= ~inside
        depths = np.cumsum(step, dtype=np.int32) + depth
        depth = int(depths[-1])
        if depths.min() < 0:
            raise _error("a bracket is closed that was not opened", text, start)
        if depths.max() > _DEEPEST:
            raise _error("depth limit exceeded", text, start)
        places = np.flatnonzero(is_comma)
        levels = depths[places]
        first, last = np.full((2, _DEEPEST + 1), -1)
        first[levels[::-1]], last[levels] = places[::-1], places
        cuts = [
            (level, start + place)
            for level in np.flatnonzero(first >= 0).tolist()
            for place in dict.fromkeys((int(first[level]), int(last[level])))
        ]
        yield _Window(cuts, int(np.count_nonzero(levels == 1)), int(np.count_nonzero(step > 0)))


def _without_escapes(window: bytes, escaped: bool) -> tuple[bytes, bool]:
    """Mask escapes with bytes of the same length; return also whether the next window begins with an escaped byte."""
    if escaped:
        window = b"_" + window[1:]
    if b"\\" not in window:
        return window, False
    window = window.replace(b"\\\\", b"__")
    return window.replace(b'\\"', b"__"), window.endswith(b"\\")
