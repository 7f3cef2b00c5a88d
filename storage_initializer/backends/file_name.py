"""The name of a file from a web server: from the response's headers, the URL's path, or its query. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import PurePosixPath
from urllib.parse import parse_qsl, unquote, urlsplit

from model_archive.formats import SUFFIXES
from storage_initializer.errors import UsageError
from storage_initializer.kinds import UNPACKED

# Suffixes of programs that send files: they do not show the file's type.
_PROGRAMS = (".php", ".asp", ".aspx", ".ashx", ".cgi", ".fcgi", ".pl", ".jsp", ".do", ".action", ".cfm")
# A number is a version's, as in ``bert-1.0`` or ``bert.v2``.
_TYPE = re.compile(r"\.(?!v?\d)[A-Za-z0-9_-]{1,16}")
# A query may hold host names and much else that has a dot.
_MODELS = (*UNPACKED, ".mar", *SUFFIXES)
_UNNAMED = "model"


@dataclass(frozen=True)
class FileName:
    """``typed`` is whether the name shows the file's type; otherwise its content has to."""

    name: str
    typed: bool


def file_name(url: str, disposition: str) -> FileName:
    """Return the first name with a type, from ``Content-Disposition``, the path and the query; else the first name.

    A URL of a host alone names no file, as for KServe.
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
    """Return the last part of a path, as a browser saves it; empty where that is not a name."""
    name = PurePosixPath(path.replace("\\", "/")).name
    return "" if name == ".." or "\0" in name else name


def _tells_type(name: str) -> bool:
    suffix = PurePosixPath(name).suffix.lower()
    return bool(_TYPE.fullmatch(suffix)) and suffix not in _PROGRAMS
