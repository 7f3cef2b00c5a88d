"""Splits an HTTP body into the named parts that a handler gets, as TorchServe does. Pure.

Each field and file of a form becomes a part; any other body becomes the part `body`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_FORM_PARTS
from torchserve_compat.frames import RequestPart

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_MULTIPART = "multipart/form-data"
_URLENCODED = "application/x-www-form-urlencoded"
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def split(body: bytes, content_type: str) -> list[RequestPart]:
    """Return the parts of a body; raises InvalidRequest for a form that cannot be read or has too many parts."""
    mime_type = _kind(content_type)
    kind = mime_type.lower()
    if kind == _MULTIPART:
        return _multipart(body, content_type)
    # curl sends this type with any --data, so JSON is not a form.
    if kind == _URLENCODED and body and not body.lstrip().startswith((b"{", b"[")):
        return _urlencoded(body)
    return [RequestPart("body", mime_type, body)]


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip()


def _urlencoded(body: bytes) -> list[RequestPart]:
    if body.count(b"&") >= MAX_FORM_PARTS:
        raise _too_many()
    if broken := _BROKEN_ESCAPE.search(body):
        raise InvalidRequest(
            f"The form has a % at byte {broken.start()} that begins no escape. If the body is not a form, send its own "
            "Content-Type; curl calls whatever it sends with -d a form."
        )
    # Latin-1 has a character for each byte: values are bytes, whatever charset the client used.
    fields = parse_qsl(body.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    if any(not name for name, _ in fields):
        raise InvalidRequest("A field of the form has no name.")
    return [
        RequestPart(name.encode("latin-1").decode("utf-8", "replace"), "", value.encode("latin-1"))
        for name, value in fields
    ]


def _too_many() -> InvalidRequest:
    return InvalidRequest(f"The form has more than {MAX_FORM_PARTS} parts; send what belongs together as one.")


def _multipart(body: bytes, content_type: str) -> list[RequestPart]:
    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if not boundary:
        raise InvalidRequest("The multipart request names no boundary in its Content-Type.")
    collector = _Collector()
    try:
        parser = MultipartParser(boundary, collector.callbacks())
        parser.write(_without_preamble(body, b"--" + boundary))
        parser.finalize()
    except FormParserError as error:
        raise InvalidRequest(f"The multipart body cannot be read: {error}.") from error
    if not collector.ended:
        raise InvalidRequest("The multipart body ends before its last boundary.")
    return collector.parts


def _without_preamble(body: bytes, delimiter: bytes) -> bytes:
    """Return the body from the first boundary on: the preamble is ignored (RFC 2046, 5.1.1)."""
    if body.startswith(delimiter):
        return body
    start = body.find(b"\r\n" + delimiter)
    return body if start < 0 else body[start + len(b"\r\n") :]


class _Collector:
    def __init__(self) -> None:
        self.parts: list[RequestPart] = []
        self.ended = False
        self._name = self._value = b""
        self._headers: dict[bytes, bytes] = {}
        self._data = bytearray()

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_part_data": self._part_data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        if len(self.parts) >= MAX_FORM_PARTS:
            raise _too_many()
        self._headers = {}
        self._data = bytearray()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        self._data += data[start:end]

    def _end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if b"name" not in options:
            raise InvalidRequest("A part of the multipart body has no name in its Content-Disposition.")
        is_file = b"filename" in options
        content_type = _kind(self._headers.get(b"content-type", b"").decode("latin-1")) if is_file else ""
        self.parts.append(RequestPart(options[b"name"].decode("utf-8", "replace"), content_type, bytes(self._data)))

    def _finish(self) -> None:
        self.ended = True
