"""What a file of a web server is called: by what the server says, by the address, by what is in its query. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import PurePosixPath
from urllib.parse import parse_qsl, unquote, urlsplit

from storage_initializer.errors import UsageError
from storage_initializer.kinds import UNPACKED

# Of a program that sends files; what it sends is not told by that.
_PROGRAMS = (".php", ".asp", ".aspx", ".ashx", ".cgi", ".fcgi", ".pl", ".jsp", ".do", ".action", ".cfm")
# A number is a version's, as in ``bert-1.0`` or ``bert.v2``.
_TYPE = re.compile(r"\.(?!v?\d)[A-Za-z0-9_-]{1,16}")
# A query may hold host names and much else that has a dot.
_MODELS = (*UNPACKED, ".mar", ".pt", ".pt2", ".onnx")
_UNNAMED = "model"


@dataclass(frozen=True)
class FileName:
    """``typed`` is whether it tells what the file is; else what is in the file has to."""

    name: str
    typed: bool


def file_name(url: str, disposition: str) -> FileName:
    """The first that tells a type of: ``Content-Disposition``, the address, its query; else the first there is.

    An address that is a host's alone names no file, as for KServe.
    """
    parts = urlsplit(url)
    names = [name for name in map(_last_part, (_disposed(disposition), unquote(parts.path))) if name]
    if typed := next(filter(_tells_type, names), None) or next(_models_in(parts.query), None):
        return FileName(typed, typed=True)
    if not names and not parts.query:
        raise UsageError("the address has no file name; give the address of a file")
    return FileName(names[0] if names else _UNNAMED, typed=False)


def _disposed(disposition: str) -> str:
    message = Message()
    message["Content-Disposition"] = " ".join(disposition.split())
    return message.get_filename() or ""


def _models_in(query: str) -> Iterator[str]:
    for _, value in parse_qsl(query):
        if value.lower().endswith(_MODELS) and (name := _last_part(value)):
            yield name


def _last_part(path: str) -> str:
    """As a browser would save it; empty where that is no name."""
    name = PurePosixPath(path.replace("\\", "/")).name
    return "" if name == ".." or "\0" in name else name


def _tells_type(name: str) -> bool:
    suffix = PurePosixPath(name).suffix.lower()
    return bool(_TYPE.fullmatch(suffix)) and suffix not in _PROGRAMS
