"""What a model file says of the tensors that it takes and gives. Nothing of it is run, and only parts are read."""

from __future__ import annotations

import io
import pickletools
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final
from zipfile import BadZipFile, ZipFile

from model_archive.contents import ArchiveFile
from model_archive.formats import Format
from model_archive.limits import MAX_CHECKED, MAX_TENSORS
from model_archive.protobuf import GRAPH, Fields, Unreadable
from model_archive.traced import examples

# onnx.proto's TensorProto.DataType, by the names of the Open Inference Protocol.
_DATATYPES: Final = {
    1: "FP32", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 8: "BYTES", 9: "BOOL",
    10: "FP16", 11: "FP64", 12: "UINT32", 13: "UINT64", 16: "BF16",
}  # fmt: skip
_INITIALIZER, _INPUT, _OUTPUT = 5, 11, 12  # fields of a graph in onnx.proto
_FORWARD: Final = r".*?^  def forward\(self: [\w.]+,?(.*?)\) -> "
# What a reader of a zip, a text or a table says of something else than was expected.
_OTHER_FORM: Final = (ValueError, LookupError, StopIteration, BadZipFile, RuntimeError, EOFError, zlib.error)
_ARGUMENT: Final = re.compile(r"\s*(\w+): (?:Optional\[)?(Tensor|int|float|bool|str)\]?(?:=.*)?\Z")
_SCALARS: Final = {"int": "INT64", "float": "FP64", "bool": "BOOL", "str": "BYTES"}


@dataclass(frozen=True)
class TensorInfo:
    """A tensor by its name; a size of -1 may be any. None is what the file does not say."""

    name: str
    datatype: str | None
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class FileSignature:
    """The tensors that a model takes and gives; none where the file does not say which."""

    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()


def signature_of(file: ArchiveFile, of: Format) -> FileSignature:
    """Return what an ONNX file, or TorchScript, says of its tensors."""
    try:
        if of is Format.ONNX:
            with file.open("rb") as stream:
                return _of_onnx(stream)
        return _of_torchscript(file) if of is Format.TORCHSCRIPT else FileSignature()
    except (Unreadable, *_OTHER_FORM):
        return FileSignature()


def _of_torchscript(file: ArchiveFile) -> FileSignature:
    """Return inputs of any number of rows, like those of the example, if it has as many rows of each."""
    given = examples(file)
    rows = {example.shape[:1] for example in given}
    with file.open("rb") as content, ZipFile(content) as archive:
        taken = _arguments(archive)
    if len(rows) != 1 or () in rows or len(given) != len(taken):
        return FileSignature(
            tuple(TensorInfo(name, _SCALARS.get(kind), () if kind in _SCALARS else None) for name, kind in taken)
        )
    return FileSignature(
        tuple(
            TensorInfo(name, example.datatype, (-1, *example.shape[1:]))
            for (name, _), example in zip(taken, given, strict=True)
        )
    )


def _arguments(archive: ZipFile) -> list[tuple[str, str]]:
    """Return the names and the types that ``forward`` of the saved module takes, all of them tensors or scalars."""
    top = archive.namelist()[0].partition("/")[0]
    with archive.open(f"{top}/data.pkl") as pickled:
        beginning = pickled.read(MAX_CHECKED)
    named = (str(argument) for code, argument, _ in pickletools.genops(beginning) if code.name == "GLOBAL")
    module, _, name = next(named, "").partition(" ")
    with archive.open(f"{top}/code/{module.replace('.', '/')}.py") as code:
        text = code.read(MAX_CHECKED).decode()
    within = re.compile(rf"^class {re.escape(name)}\(" + _FORWARD, re.DOTALL | re.MULTILINE)
    found = within.search(text)
    arguments = [_ARGUMENT.match(each) for each in found[1].split(",")] if found else [None]
    if not all(arguments):
        raise Unreadable
    return [(each[1], each[2]) for each in arguments if each]


def _of_onnx(stream: IO[bytes]) -> FileSignature:
    constants: set[str] = set()
    tensors: dict[int, list[TensorInfo]] = {_INPUT: [], _OUTPUT: []}
    fields = Fields(stream)
    for start, end in fields.all(0, stream.seek(0, io.SEEK_END), GRAPH):
        for number, first, last in fields.of(start, end):
            if number == _INITIALIZER:
                constants.add(fields.text(first, last, 8))
            elif number in tensors:
                tensors[number] += _tensors(fields, first, last)
    inputs = [tensor for tensor in tensors[_INPUT] if tensor.name not in constants]
    return FileSignature(tuple(inputs[:MAX_TENSORS]), tuple(tensors[_OUTPUT][:MAX_TENSORS]))


def _tensors(fields: Fields, start: int, end: int) -> Iterator[TensorInfo]:
    """Yield the tensor of a ValueInfoProto, which may also be a sequence or a map."""
    for first, last in [place for type_ in fields.all(start, end, 2) for place in fields.all(*type_, 1)]:
        sizes = [place for shape in fields.all(first, last, 2) for place in fields.all(*shape, 1)][:MAX_TENSORS]
        shape = tuple(next(iter(fields.numbers(*place, 1)), -1) for place in sizes)
        yield TensorInfo(fields.text(start, end, 1), _DATATYPES[fields.numbers(first, last, 1)[0]], shape)
