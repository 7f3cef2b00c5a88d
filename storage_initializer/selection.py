"""Which files of a source are wanted, and what their content must be, where the environment says so. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from storage_initializer.errors import EmptySourceError, UsageError
from storage_initializer.sources import Checksum, SourceFile

ALLOW = "STORAGE_ALLOW_PATTERNS"
IGNORE = "STORAGE_IGNORE_PATTERNS"
SHA256 = "STORAGE_SHA256"


@dataclass(frozen=True)
class FileSelection:
    """Patterns are matched with the path below the destination; ``*`` matches slashes, too, and ``onnx/`` the folder.

    They choose among the files of a folder: a file that the URI itself names is always wanted, as with KServe.
    """

    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    sha256: Mapping[str, str] | None = None

    def of(self, files: Sequence[SourceFile]) -> Sequence[SourceFile]:
        wanted = [self._with_checksum(file) for file in files if file.exact or self._wants(str(file.path))]
        if not wanted:
            raise EmptySourceError(f"{ALLOW} and {IGNORE} leave none of its {len(files)} files; correct them")
        if unknown := [path for path in self.sha256 or {} if path not in {str(file.path) for file in wanted}]:
            raise UsageError(f"{SHA256} names {unknown[0]}, which is not brought; correct the path")
        return wanted

    def _wants(self, path: str) -> bool:
        allowed = not self.allow or any(fnmatchcase(path, pattern) for pattern in self.allow)
        return allowed and not any(fnmatchcase(path, pattern) for pattern in self.ignore)

    def _with_checksum(self, file: SourceFile) -> SourceFile:
        value = (self.sha256 or {}).get(str(file.path))
        return replace(file, checksum=Checksum("sha256", value)) if value else file


def make_selection(environment: Mapping[str, str]) -> FileSelection:
    return FileSelection(
        allow=_patterns(environment, ALLOW),
        ignore=_patterns(environment, IGNORE),
        sha256=_checksums(environment.get(SHA256, "")),
    )


def _patterns(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Parse the patterns; one that ends in a slash selects a folder, as for Hugging Face's own tools."""
    return tuple(f"{pattern}*" if pattern.endswith("/") else pattern for pattern in _listed(environment, name))


def _listed(environment: Mapping[str, str], name: str) -> Sequence[str]:
    """Parse a JSON array, one pattern as a JSON string, or a list with commas."""
    text = environment.get(name, "").strip()
    if not _is_json(text):
        return tuple(filter(None, map(str.strip, text.split(","))))
    document = _parse_json(name, text)
    patterns = [document] if isinstance(document, str) else document
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f"{name} is {text}; write a JSON array of strings, or a list with commas")
    return patterns


def _is_json(text: str) -> bool:
    """Return whether it is JSON; a pattern may begin with a bracket as well: ``[0-9]*.bin``."""
    return text.startswith(('"', "{")) or (text.startswith("[") and text.endswith("]"))


def _checksums(text: str) -> dict[str, str]:
    checksums = _parse_json(SHA256, text) if text.strip() else {}
    if not isinstance(checksums, dict) or not all(_is_sha256(value) for value in checksums.values()):
        raise UsageError(f'{SHA256} is {text}; write {{"PATH": "64 hexadecimal digits"}}')
    return {path: value.lower() for path, value in checksums.items()}


def _is_sha256(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and not set(value.lower()) - set("0123456789abcdef")


def _parse_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not valid JSON ({error}); correct it") from None
