"""What a compiled Java class says in constants: enough to learn which names TorchServe's jar knows."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal
from zipfile import ZipFile

# Bytes of a constant by its tag; texts (1) say their own length, and longs and doubles (5, 6) take two places.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_STRING = 8


@dataclass(frozen=True)
class JavaClass:
    """`strings` are all text literals of the class, `constants` its fields that are a text for good."""

    strings: frozenset[str]
    constants: Mapping[str, str]


def read(jar: str, name: str) -> JavaClass:
    """The class `name` ("org/pytorch/…") of a jar."""
    with ZipFile(jar) as archive:
        return _parse(io.BytesIO(archive.read(f"{name}.class")))


def _parse(file: BinaryIO) -> JavaClass:
    file.read(8)  # magic number and version
    texts, strings = _pool(file)
    file.read(6)  # access, this class, its parent
    file.read(2 * _number(file))  # interfaces
    constants = {}
    for _ in range(_number(file)):
        file.read(2)
        name = texts[_number(file)]
        file.read(2)
        for _ in range(_number(file)):
            attribute, content = texts[_number(file)], file.read(_number(file, "I"))
            place = int.from_bytes(content)
            if attribute == "ConstantValue" and place in strings:
                constants[name] = texts[strings[place]]
    return JavaClass(frozenset(texts[place] for place in strings.values()), constants)


def _pool(file: BinaryIO) -> tuple[dict[int, str], dict[int, int]]:
    """Texts by their place, and the places of the texts of string literals."""
    texts: dict[int, str] = {}
    strings: dict[int, int] = {}
    count, place = _number(file), 1
    while place < count:
        tag = file.read(1)[0]
        if tag == 1:
            texts[place] = file.read(_number(file)).decode("utf-8", "replace")
        else:
            content = file.read(_SIZES[tag])
            if tag == _STRING:
                strings[place] = int.from_bytes(content)
        place += 2 if tag in (5, 6) else 1
    return texts, strings


def _number(file: BinaryIO, form: Literal["H", "I"] = "H") -> int:
    size = struct.calcsize(form)
    return int.from_bytes(file.read(size))
