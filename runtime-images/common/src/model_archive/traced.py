"""What a traced TorchScript file was traced with: torch keeps the example's tensors in it, of which shapes are read."""

from __future__ import annotations

import pickle
import struct
from collections import OrderedDict
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple
from zipfile import ZipFile

from model_archive.contents import ArchiveFile
from model_archive.limits import MAX_CHECKED

_OTHER_FORM = (pickle.UnpicklingError, LookupError, TypeError, ValueError, AttributeError, EOFError, struct.error,
               AssertionError, ArithmeticError, MemoryError, RecursionError)  # fmt: skip
_RECORD = "/traced_inputs.pkl"
_DATATYPES = {
    "BoolStorage": "BOOL",
    "ByteStorage": "UINT8",
    "UInt16Storage": "UINT16",
    "UInt32Storage": "UINT32",
    "UInt64Storage": "UINT64",
    "CharStorage": "INT8",
    "ShortStorage": "INT16",
    "IntStorage": "INT32",
    "LongStorage": "INT64",
    "HalfStorage": "FP16",
    "BFloat16Storage": "BF16",
    "FloatStorage": "FP32",
    "DoubleStorage": "FP64",
}


class Example(NamedTuple):
    """A tensor of the example."""

    datatype: str
    shape: tuple[int, ...]


def examples(file: ArchiveFile) -> list[Example]:
    """Return the tensors that `forward` was traced with, those of tuples as well; none of a file that was not."""
    with file.open("rb") as content, ZipFile(content) as archive:
        name = next((name for name in archive.namelist() if name.endswith(_RECORD)), None)
        if name is None:
            return []
        with archive.open(name) as record:
            try:
                return list(_flattened(unpickled(record.read(MAX_CHECKED))["forward"]))
            except _OTHER_FORM:
                return []  # another form than torch writes today


def unpickled(pickled: bytes) -> Any:
    """Return what a pickle holds, each tensor as an Example; None for objects of other classes than torch's tensors."""
    try:
        return _Reader(BytesIO(pickled)).load()
    except _OTHER_FORM:
        return None


class _Reader(pickle._Unpickler):
    """Makes an Example of each tensor, and refuses everything else that a pickle may name.

    It is Python's own in Python: the one in C makes room for as many objects as the pickle says that it has.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda datatype, _, shape, *__: Example(datatype, tuple(shape))
        if (module, name) == ("torch.jit._pickle", "restore_type_tag"):
            return lambda value, _: value
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _DATATYPES:
            return _DATATYPES[name]
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> str:
        """Return the datatype of a storage, ("storage", type, key, place, size)."""
        return str(pid[1])


def _flattened(given: Any) -> Iterator[Example]:
    if isinstance(given, Example):
        yield given
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _flattened(one)
    else:
        raise TypeError(given)
