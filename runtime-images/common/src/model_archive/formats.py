"""Tells what a model file is from its first bytes and its table of contents, without running anything in it."""

from __future__ import annotations

import ast
import io
import os
import re
import shlex
from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum
from pathlib import Path, PurePath, PurePosixPath
from zipfile import BadZipFile, ZipFile

from model_archive.contents import ArchiveFile
from model_archive.errors import NoModel
from model_archive.limits import MAX_CHECKED
from model_archive.pickles import classes_in
from model_archive.protobuf import GRAPH, Fields, Unreadable
from model_archive.text import quoted
from model_archive.traced import Example, unpickled


class Format(Enum):
    """A file format that is served without an archive."""

    TORCHSCRIPT = "TorchScript"
    EXPORTED = "torch.export program"
    AOTINDUCTOR = "AOTInductor package"
    ONNX = "ONNX"


SUFFIXES = (".pt", ".pth", ".ts", ".pt2", ".onnx")

_PICKLE = b"\x80"
_ZIP = b"PK"
_IR_VERSION = b"\x08"  # the tag of the first field of an ONNX file
_DAMAGED = "is damaged; copy or save it again"
# A state dict is dictionaries of tensors; a pickle that names anything else holds objects of some class.
_STATE_DICT_MODULES = ("torch", "torch._utils", "torch._tensor", "collections")
_NETWORK = "model.py"
_WEIGHTS = "weights.pt"
_CLASS = re.compile(rb"^class \w+\([^)]*\bModule\b", re.MULTILINE)
_SHOWN = 5
_DEFINITIONS = ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign | ast.If
_LOOKED_INTO = 20  # files beside it
_CONVERT = "convert it where its class is known: torch.jit.script(model).save('model.pt')"


def is_bare_model(path: PurePath) -> bool:
    """Return whether a file's name is that of a model without an archive; hidden files, such as macOS's, are none."""
    return path.suffix in SUFFIXES and not path.name.startswith(".")


def format_of(file: ArchiveFile, path: Path | None = None) -> Format:
    """Return the file's format; raises NoModel with what to do about any other file.

    `path`: where its user has it, for commands that can be copied.
    """
    suffix = PurePosixPath(file.name).suffix
    if suffix not in SUFFIXES:
        raise NoModel(f"the name ends in none of {', '.join(SUFFIXES)}")
    try:
        start = _first_bytes(file)
        if suffix == ".onnx":
            _check_onnx(file, start)
            return Format.ONNX
        if start.startswith(_PICKLE):
            raise NoModel(f"saved by torch.save in its format of before torch 1.6; {_CONVERT}")
        with file.open("rb") as content, ZipFile(content) as archive:
            return _format_of_zip(file.name, path, archive)
    except BadZipFile as error:
        raise NoModel(_why_no_archive(start)) from error
    except OSError as error:
        raise NoModel(f"cannot be read: {error.strerror}") from error


def _first_bytes(file: ArchiveFile) -> bytes:
    with file.open("rb") as content:
        start = content.read(2)
    if not start:
        raise NoModel("is empty; copy or save it again")
    return start


def _check_onnx(file: ArchiveFile, start: bytes) -> None:
    """Raise NoModel for a file that is not a whole ModelProto with a graph. What is in the graph is not looked at."""
    try:
        with file.open("rb") as content:
            if Fields(content).all(0, content.seek(0, io.SEEK_END), GRAPH):
                return
    except (Unreadable, LookupError):
        pass
    if start.startswith(_IR_VERSION):
        raise NoModel(_DAMAGED)
    raise NoModel("is not an ONNX model; export it again, such as by torch.onnx.export, or copy the right file")


def _why_no_archive(start: bytes) -> str:
    if start.startswith(_ZIP):
        return _DAMAGED
    return "is not a model that torch saved; expected TorchScript, a torch.export program or an AOTInductor package"


def _format_of_zip(name: str, path: Path | None, archive: ZipFile) -> Format:
    """torch puts everything below one folder, named after the file that was saved."""
    entries = {name.partition("/")[2]: name for name in archive.namelist()}
    if "constants.pkl" in entries and _any_below(entries, "code/"):
        return Format.TORCHSCRIPT
    if _any_below(entries, "data/aotinductor/"):
        return Format.AOTINDUCTOR
    if _any_below(entries, "models/"):
        return Format.EXPORTED
    if "data.pkl" in entries:
        raise NoModel(_what_was_pickled(archive.read(entries["data.pkl"]), name, path))
    if "MAR-INF/MANIFEST.json" in archive.namelist():
        raise NoModel("is a TorchServe archive; name it .mar and put it into model-store/")
    raise NoModel("is a zip file, but neither TorchScript nor a torch.export or AOTInductor package")


def _any_below(entries: Iterable[str], folder: str) -> bool:
    return any(entry.startswith(folder) for entry in entries)


def _what_was_pickled(pickled: bytes, name: str, path: Path | None) -> str:
    try:
        classes = [each for each in classes_in(pickled) if each.rpartition(".")[0] not in _STATE_DICT_MODULES]
    except ValueError as error:
        raise BadZipFile("data.pkl is not a pickle") from error
    pack_weights = _package(_WEIGHTS, path)
    if classes:
        return (
            f"holds pickled objects ({', '.join(sorted(classes)[:3])}), and to load them would run code from the file; "
            f"{_CONVERT}, or save model.state_dict() as {_WEIGHTS}, and {pack_weights}"
        )
    found = unpickled(pickled[:MAX_CHECKED])
    # Module.state_dict() returns an OrderedDict.
    if found is None or isinstance(found, OrderedDict) or _holds_only_tensors(found):
        return f"holds weights only (a state dict), and needs its class: {_package(name, path)}"
    if isinstance(found, dict) and (names := [quoted(name) for name in found if isinstance(name, str)]):
        shown = ", ".join(names if len(names) <= _SHOWN else (*names[:_SHOWN], "…"))
        one = f"if one of them is the state dict, save it alone as {_WEIGHTS}"
        return f"holds a dictionary with the entries {shown}; {one}, and {pack_weights}"
    what = "tensor" if isinstance(found, Example) else type(found).__name__
    return f"holds a {what} and no network; save model.state_dict() as {_WEIGHTS}, and {pack_weights}"


def _package(weights: str, path: Path | None) -> str:
    """Return the command that packs weights beside a path; without options if they are found by their names."""
    folder = path.parent if path else Path()
    network = _file_with_class(folder) if path else Path(_NETWORK)
    if path and path.name == weights and network.is_file() and network.name == _NETWORK and _is_only(path):
        name, given = Path(os.path.abspath(folder)).name, shlex.quote(str(folder))  # noqa: PTH100 - a link keeps its name
    else:
        files = (shlex.quote(str(file)) for file in (network, folder / weights))
        name, given = "NAME", "--model-name NAME --model-file {} --serialized-file {}".format(*files)
    run = f"; then isvc run {shlex.quote(f'{name}.mar')}" if path else ""
    return f"package it with its class as a .mar (isvc pack {given}{run})"


def _is_only(weights: Path) -> bool:
    """Whether there is no other model beside weights, so that isvc pack finds them."""
    return sum(map(is_bare_model, weights.parent.iterdir())) == 1


def _file_with_class(folder: Path) -> Path:
    """Return the only file of a folder that has the class of a network and does nothing else; else a name for one."""
    found = [file for file in sorted(folder.glob("*.py"))[:_LOOKED_INTO] if file.is_file() and _has_class(file)]
    return found[0] if len(found) == 1 else Path(_NETWORK)


def _has_class(file: Path) -> bool:
    """Whether a file has a class of torch's modules, and no statement that runs when a server imports it."""
    with file.open("rb") as content:
        text = content.read(MAX_CHECKED)
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(_CLASS.search(text)) and all(map(_defines, statements))


def _defines(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, _DEFINITIONS)


def _holds_only_tensors(found: object) -> bool:
    return isinstance(found, dict) and all(isinstance(value, Example) for value in found.values())
