"""Inputs and outputs of the v2 protocol: data is kept as it was sent, and converted to an array on demand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from data_plane.errors import InvalidRequest as BadTensor
from data_plane.protocol.v2.datatypes import DATATYPES
from data_plane.protocol.v2.document import TensorDocument
from transformer_sdk.kserve.errors import InferenceError, InvalidInput
from transformer_sdk.kserve.protocol.parameters import for_grpc

if TYPE_CHECKING:
    import numpy as np

    from data_plane.protocol.v2.tensors import Tensor

    Array = np.ndarray[Any, np.dtype[Any]]

SIZE = "binary_data_size"
_BYTES = "BYTES"
_FLOATS, _BOOL = ("e", "f", "d"), "?"  # `struct`'s codes


class NamedTensor:
    """Base class of InferInput and InferOutput."""

    def __init__(
        self,
        name: str,
        shape: Sequence[int],
        datatype: str,
        data: Sequence[Any] | Array | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.shape = list(shape)
        self.datatype = datatype.upper()
        self.parameters = None if parameters is None else dict(parameters)
        self._data: Any = data
        self._raw_data: bytes | memoryview | None = None
        self._reads_text = False

    @property
    def data(self) -> Any:
        """The data as given: a list, flat or nested, or an array. Raw bytes become a flat list."""
        if self._data is None and self._raw_data is not None:
            values = self._read({}).data.reshape(-1).tolist()
            self._data = _as_text(values) if self._reads_text else values
        return self._data

    @data.setter
    def data(self, data: Sequence[Any] | Array | None) -> None:
        self._data, self._raw_data, self._reads_text = data, None, False

    @property
    def raw_data(self) -> bytes | memoryview | None:
        """The raw bytes, if the data was given in this form."""
        return self._raw_data

    def take_raw(self, data: bytes | memoryview, *, reads_text: bool = False) -> None:
        """Set raw bytes as the data; with `reads_text`, elements of BYTES are read as text if all are UTF-8."""
        self._data, self._raw_data = None, data
        self._reads_text = reads_text and self.datatype == _BYTES

    def as_numpy(self) -> Array:
        """Return the data as a writable array; raises InvalidInput if data, datatype and shape do not agree.

        Elements of BYTES are text or bytes, as sent; raw ones of an HTTP body are text if they are UTF-8.
        """
        if self._reads_text or (self._raw_data is None and self.datatype == _BYTES):
            return self._text()
        array = self._read({}).data
        return array if array.flags.writeable else array.copy()

    def _take_array(self, array: Array, *, as_raw: bool) -> None:
        from data_plane.protocol.v2 import tensors

        try:
            taken = tensors.Tensor.from_numpy(self.name, _with_text(array))
        except (AttributeError, TypeError) as error:
            raise InferenceError(f"{self.name} takes a numpy array of a type that the protocol has: {error}") from error
        if taken.datatype != self.datatype:
            raise InferenceError(f"got unexpected datatype {taken.datatype} from numpy array, expected {self.datatype}")
        if list(taken.shape) != self.shape:
            raise InferenceError(f"got unexpected numpy array shape {list(taken.shape)}, expected {self.shape}")
        parameters = {name: value for name, value in (self.parameters or {}).items() if name != SIZE}
        if as_raw:
            buffer = tensors.to_buffer(taken)
            self.take_raw(buffer)
            parameters[SIZE] = len(buffer)
        else:
            self.data = json_values(taken)
        self.parameters = parameters or None

    def tensor(self) -> Tensor:
        """Return the tensor as a value of the data plane; raises InvalidInput."""
        return self._read({name: value for name, value in for_grpc(self.parameters).items() if name != SIZE})

    def _read(self, parameters: Mapping[str, Any]) -> Tensor:
        from data_plane.protocol.v2 import rest, tensors

        try:
            if self._raw_data is not None:
                raw = memoryview(self._raw_data)
                return tensors.from_buffer(self.name, self.datatype, self.shape, buffer=raw, parameters=parameters)
            # An array is converted to the tensor's datatype.
            data = self._data.tolist() if hasattr(self._data, "tolist") else self._data
            document = TensorDocument(self.name, self.datatype, tuple(self.shape), data)
            if self.datatype == _BYTES:
                document.data = self._checked(data)
                return rest.from_json(document, parameters)
            try:
                return rest.from_json(document, parameters)
            except BadTensor:
                if data is None:
                    raise
                document.data = _numbers(data, self.datatype)
                return rest.from_json(document, parameters)
        except BadTensor as error:
            raise InvalidInput(str(error)) from error

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copy and pickle, which cannot handle a view of a request's body."""
        raw = self._raw_data
        return {**vars(self), "_raw_data": bytes(raw) if isinstance(raw, memoryview) else raw}

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but raw data."""
        return {name: getattr(self, name) for name in ("name", "shape", "datatype", "data", "parameters")}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        return self.to_dict() == other.to_dict() and self._raw_data == other._raw_data

    __hash__ = None  # type: ignore[assignment] # mutable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    def _checked(self, data: Any) -> Any:
        """Return the elements of BYTES in a form that can be sent."""
        return list(flat(data)) if isinstance(data, tuple) else data

    def _text(self) -> Array:
        import numpy as np

        from data_plane.protocol.v2 import shapes

        elements = list(flat([] if self.data is None else self.data))
        array = np.empty(len(elements), dtype=object)
        array[:] = elements
        try:
            return array.reshape(shapes.agreed(self.name, self.shape, len(elements)))
        except (BadTensor, ValueError) as error:
            raise InvalidInput(str(error)) from error


class InferInput(NamedTensor):
    """A named input of a request."""

    def as_string(self) -> list[str]:
        """Return the elements of BYTES as text; raises InvalidInput for other datatypes."""
        if self.datatype != _BYTES:
            raise InvalidInput(f"invalid datatype {self.datatype} in the input")
        return [element.decode() if isinstance(element, bytes) else str(element) for element in flat(self.data or ())]

    def set_data_from_numpy(self, input_tensor: Array, binary_data: bool = True) -> None:
        """Take the array's data, to be sent as raw bytes or as JSON; raises InferenceError where it does not fit."""
        self._take_array(input_tensor, as_raw=binary_data)


class InferOutput(NamedTensor):
    """A named output of a response. Elements of BYTES that are neither text nor bytes are sent as text."""

    def set_data_from_numpy(self, output_tensor: Array, binary_data: bool = True) -> None:
        """Take the array's data, to be sent as raw bytes or as JSON; raises InferenceError where it does not fit."""
        self._take_array(output_tensor, as_raw=binary_data)

    def _checked(self, data: Any) -> Any:
        return [one if isinstance(one, (str, bytes)) else str(one) for one in flat(data or ())]


def _as_text(values: list[bytes]) -> list[str] | list[bytes]:
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError:
        return values


def flat(data: Any) -> Iterable[Any]:
    """Iterate over the elements of nested lists, tuples and arrays in row-major order."""
    return itertools.chain.from_iterable(flat(item) if is_nested(item) else [item] for item in data)


def is_nested(item: Any) -> bool:
    """Whether it is a list, a tuple or an array; numpy's scalars, text among them, are elements."""
    return isinstance(item, (list, tuple)) or bool(getattr(item, "ndim", 0))


def _numbers(data: Any, datatype: str) -> list[Any]:
    """Return data as JSON has it for a datatype, where KServe takes other forms as well.

    They are tuples, arrays and numpy's scalars, a lone number, null for NaN, as servers write it, 1.0 for 1 and 1 for
    true.
    """
    code = DATATYPES[datatype].code if datatype in DATATYPES else ""
    read = _plain(data, code)
    return read if isinstance(read, list) else [read]


def _plain(value: Any, code: str) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(one, code) for one in value]
    if code in _FLOATS:
        return math.nan if value is None else value
    if code == _BOOL:
        return bool(value) if value in (0, 1) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _with_text(array: Array) -> Array:
    """Dates, and whatever else than text and bytes an array of objects holds, as text: BYTES have no other form."""
    if array.dtype.kind not in "MO":
        return array
    objects = array.astype(object)
    for index, item in enumerate(objects.flat):
        if not isinstance(item, (str, bytes)):
            objects.flat[index] = str(item)
    return objects


def json_values(taken: Tensor) -> list[Any]:
    """The elements, row by row, as JSON can carry them; raises InferenceError for bytes that are not text."""
    if taken.datatype != _BYTES:
        return taken.data.reshape(-1).tolist()
    try:
        return [element.decode() for element in taken.data.flat]
    except UnicodeDecodeError as error:
        raise InferenceError(
            f"{taken.name}: its bytes are not UTF-8, which JSON cannot carry; use binary_data=True"
        ) from error
