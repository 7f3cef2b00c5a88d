"""ONNX files, run by onnxruntime. The file says what it takes and gives."""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as failures

from data_plane.errors import InferenceFailed, UnprocessableInput
from data_plane.protocol.v2 import bfloat16, datatypes
from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.tensors import Array
from mar_runtime.engines.config import NAME, ModelConfig
from mar_runtime.engines.engine import Engine
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.signature import Signature, check_outputs

log = logging.getLogger(__name__)

DATATYPES = {f"tensor({each.onnx})": each.name for each in datatypes.DATATYPES.values()}

# What scikit-learn's converter writes for the probabilities of a classifier: for each row, a value for each class.
_MAPS = re.compile(r"seq\(map\((int64|string),tensor\((float|double)\)\)\)")
_NO_LOCALE = re.compile(r"Failed to construct locale with name:\s?([\w.@-]+?):")
_NO_WEIGHTS = re.compile(r'External data path does not exist: "(?:[^"]*/)?([^"/]+)"')
_NO_MODEL = re.compile(r"Protobuf parsing failed|No graph was found")
# What says nothing to people: the file again, and the place in onnxruntime's sources, with its function.
_PLACE = re.compile(r"^Load model from .*? failed:|/onnxruntime_src/\S+:\d+ .*\) (?=[A-Z])")
_ERRORS_ONLY = 3
_BFLOAT16 = 16  # in onnx.proto's TensorProto.DataType


def load(path: Path, config: ModelConfig, device: str, threads: int) -> OnnxEngine:
    """Raises CannotLoad."""
    if config.inputs or config.outputs:
        raise CannotLoad(path.with_name(NAME), f"{path.name} describes its inputs and outputs itself; remove them here")
    providers = _providers(path, device)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # Idle threads would otherwise burn a pod's CPU quota while they wait for the next operator.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:
        raise CannotLoad(path, f"cannot be loaded by onnxruntime: {_why_not_loaded(error)}") from error
    inputs, outputs = session.get_inputs(), session.get_outputs()
    _check_beside_bfloat16(path, inputs, outputs)
    maps = frozenset(node.name for node in outputs if _MAPS.fullmatch(node.type))
    tensors = _metadata(path, [node for node in outputs if node.name not in maps and not _is_sequence(node)])
    names = {node.shape[0] for node in inputs if node.shape and isinstance(node.shape[0], str)}
    signature = Signature(_metadata(path, inputs), tensors, is_uneven=len(names) > 1)
    return OnnxEngine("onnx_onnxv1", signature, session, maps=maps)


def _providers(path: Path, device: str) -> list[str | tuple[str, dict[str, str]]]:
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return ["CPUExecutionProvider"]
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        log.warning("%s runs on the CPU: this onnxruntime cannot use %s; onnxruntime-gpu can", path.name, device)
        return ["CPUExecutionProvider"]
    return [("CUDAExecutionProvider", {"device_id": index or "0"}), "CPUExecutionProvider"]


def _check_beside_bfloat16(
    path: Path, inputs: Sequence[onnxruntime.NodeArg], outputs: Sequence[onnxruntime.NodeArg]
) -> None:
    """BF16 takes onnxruntime's own values, of which Python can read tensors only."""
    if not any("bfloat16" in node.type for node in (*inputs, *outputs)):
        return
    for node in outputs:
        if node.type not in DATATYPES:
            raise CannotLoad(
                path,
                f"{node.name} is a {node.type}, which cannot be returned beside BF16; export it with plain tensors",
            )


def _metadata(path: Path, nodes: list[onnxruntime.NodeArg]) -> tuple[TensorMetadata, ...]:
    """Symbolic sizes come as names, unknown ones as None."""
    for node in nodes:
        if node.type not in DATATYPES:
            raise CannotLoad(
                path, f"{node.name} is a {node.type}, which requests cannot carry; export it with plain tensors"
            )
    return tuple(
        TensorMetadata(
            node.name, DATATYPES[node.type], tuple(size if isinstance(size, int) else -1 for size in node.shape)
        )
        for node in nodes
    )


def _is_sequence(node: onnxruntime.NodeArg) -> bool:
    """Whether an output is several tensors; their number shows when the model runs, as that of a list of torch does."""
    return node.type.removeprefix("seq(").removesuffix(")") in DATATYPES and node.type not in DATATYPES


@dataclass(frozen=True)
class OnnxEngine(Engine):
    """An onnxruntime session."""

    session: onnxruntime.InferenceSession

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        arrays = self.signature.accept(inputs)
        feeds = {name: _as_text(name, array) for name, array in arrays.items()}
        try:
            values = self._run(feeds)
        except failures.InvalidArgument as error:
            raise UnprocessableInput(f"The model does not take these inputs: {_reason(error)}") from error
        except Exception as error:
            raise InferenceFailed(f"The model failed: {_reason(error)}") from error
        results: dict[str, Array] = {}
        for node, value in zip(self.session.get_outputs(), values, strict=True):
            if node.name in self.maps:
                results[node.name] = _of_maps(list(value))
            elif isinstance(value, list):
                results |= {f"{node.name}-{index}": _as_output(one) for index, one in enumerate(value)}
            else:
                results[node.name] = _as_output(value)
        check_outputs(results)
        return results

    def _run(self, feeds: Mapping[str, Array]) -> Sequence[Array]:
        datatypes = {metadata.name: metadata.datatype for metadata in (*self.inputs, *self.outputs)}
        if "BF16" not in datatypes.values():
            values: Sequence[Array] = self.session.run(None, feeds)
            return values
        given = {name: _to_value(array, datatypes[name]) for name, array in feeds.items()}
        return [_from_value(value) for value in self.session.run_with_ort_values(None, given)]


def _to_value(array: Array, datatype: str) -> onnxruntime.OrtValue:
    if datatype != "BF16":
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bfloat16.narrow(array), _BFLOAT16)


def _from_value(value: onnxruntime.OrtValue) -> Array:
    """onnxruntime makes no array of bfloat16; its memory, on the CPU as all results are, can be read."""
    if value.element_type() != _BFLOAT16:
        array: Array = value.numpy()
        return array
    memory = (ctypes.c_char * value.tensor_size_in_bytes()).from_address(value.data_ptr())
    halves = np.frombuffer(memory, bfloat16.WIRE).reshape(value.shape())
    return bfloat16.widen(halves).view(bfloat16.Numbers)


def _of_maps(rows: Sequence[object]) -> Array:
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


def _as_text(name: str, array: Array) -> Array:
    """ONNX's strings are text, those of the protocol are bytes."""
    if array.dtype != object:
        return array
    try:
        return _each(bytes.decode, array)
    except UnicodeDecodeError as error:
        raise UnprocessableInput(f'Input "{name}" holds bytes that are not UTF-8; the model takes text.') from error


def _as_output(array: Array) -> Array:
    """Text becomes bytes, and C's long long becomes int64: that has the same memory, but is another type of numpy."""
    return _each(str.encode, array) if array.dtype == object else array.view(np.dtype(array.dtype.str))


def _each(function: Callable[..., object], array: Array) -> Array:
    changed: Array = np.vectorize(function, otypes=[object])(array)
    return changed


def _why_not_loaded(error: Exception) -> str:
    text = _reason(error)
    if missing := _NO_WEIGHTS.search(text):
        return f"its weights are in {missing[1]}, which is not beside it; put both files into a folder, and serve that"
    if _NO_MODEL.search(text):
        return "it is not an ONNX file, or damaged; export or copy it again"
    return _PLACE.sub("", text).rstrip(".")


def _reason(error: Exception) -> str:
    """onnxruntime begins with its name and a code: ``[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : what it is about``."""
    text = " ".join(str(error).split())
    if missing := _NO_LOCALE.search(text):
        locale = missing[1]
        language, _, charset = locale.partition(".")
        return (
            f"this machine has no locale {locale}, which the model's text operators need; install it (on Debian: "
            f"apt-get install locales, then localedef --inputfile={language} --charmap={charset or 'UTF-8'} {locale})"
        )
    return text.split(" : ", 3)[-1]
