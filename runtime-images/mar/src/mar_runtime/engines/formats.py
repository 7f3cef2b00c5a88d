"""Tells what a model file is from its first bytes and its table of contents, without running anything in it."""

from __future__ import annotations

import pickletools
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from mar_runtime.engines.errors import CannotLoad


class Format(Enum):
    """A file format that `loading` supports."""

    TORCHSCRIPT = "TorchScript"
    EXPORTED = "torch.export program"
    AOTINDUCTOR = "AOTInductor package"
    ONNX = "ONNX"


SUFFIXES = (".pt", ".pth", ".ts", ".pt2", ".onnx")

_PICKLE = b"\x80"
_ZIP = b"PK"
# A state dict is dictionaries of tensors; a pickle that names anything else holds objects of some class.
_STATE_DICT_MODULES = ("torch", "torch._utils", "torch._tensor", "collections")
_PACKAGE = (
    "package it with its class as a .mar (isvc pack --model-name NAME --model-file model.py --serialized-file {name})"
)
_CONVERT = "convert it where its class is known: torch.jit.script(model).save('model.pt')"


def detect(path: Path) -> Format:
    """The file's format; raises CannotLoad with what to do about any other file."""
    if path.suffix not in SUFFIXES:
        raise CannotLoad(path, f"the name ends in none of {', '.join(SUFFIXES)}")
    try:
        start = _first_bytes(path)
        if path.suffix == ".onnx":
            return Format.ONNX
        if start.startswith(_PICKLE):
            raise CannotLoad(path, f"saved by torch.save in its format of before torch 1.6; {_CONVERT}")
        with ZipFile(path) as archive:
            return _detect_archive(path, archive)
    except BadZipFile as error:
        raise CannotLoad(path, _why_no_archive(start)) from error
    except OSError as error:
        raise CannotLoad(path, f"cannot be read: {error.strerror}") from error


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(2)
    if not start:
        raise CannotLoad(path, "is empty; copy or save it again")
    return start


def _why_no_archive(start: bytes) -> str:
    if start.startswith(_ZIP):
        return "is damaged; copy or save it again"
    return "is no model that torch saved; expected TorchScript, a torch.export program or an AOTInductor package"


def _detect_archive(path: Path, archive: ZipFile) -> Format:
    """torch puts everything below one folder, named after the file that was saved."""
    entries = {name.partition("/")[2]: name for name in archive.namelist()}
    if "constants.pkl" in entries and _any_below(entries, "code/"):
        return Format.TORCHSCRIPT
    if _any_below(entries, "data/aotinductor/"):
        return Format.AOTINDUCTOR
    if _any_below(entries, "models/"):
        return Format.EXPORTED
    if "data.pkl" in entries:
        raise CannotLoad(path, _what_was_pickled(path, archive.read(entries["data.pkl"])))
    if "MAR-INF/MANIFEST.json" in archive.namelist():
        raise CannotLoad(path, "is a TorchServe archive; name it .mar and put it into model-store/")
    raise CannotLoad(path, "is a zip file, but neither TorchScript nor a torch.export or AOTInductor package")


def _any_below(entries: Iterable[str], folder: str) -> bool:
    return any(entry.startswith(folder) for entry in entries)


def _what_was_pickled(path: Path, pickled: bytes) -> str:
    classes = [name for name in _named_in(pickled) if name.rpartition(".")[0] not in _STATE_DICT_MODULES]
    if not classes:
        return f"holds weights only (a state dict), and needs its class: {_PACKAGE.format(name=path.name)}"
    return (
        f"holds pickled objects ({', '.join(sorted(classes)[:3])}), and to load them would run code from the file; "
        f"{_CONVERT}, or save model.state_dict() and {_PACKAGE.format(name=path.name)}"
    )


def _named_in(pickled: bytes) -> set[str]:
    """The classes and functions that unpickling would import; torch.save writes protocol 2, which names them whole."""
    try:
        operations = [(code.name, argument) for code, argument, _ in pickletools.genops(pickled)]
    except ValueError as error:
        raise BadZipFile("data.pkl is no pickle") from error
    return {str(argument).replace(" ", ".") for name, argument in operations if name == "GLOBAL"}
