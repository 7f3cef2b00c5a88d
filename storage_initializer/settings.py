"""What a server says of a model's settings: an archive's own, or those in model-config.yaml beside a model file."""

from __future__ import annotations

from typing import Any

from model_archive.limits import MAX_CHECKED
from model_archive.text import quoted

WAYS = ("inputs", "outputs")
MODEL_SETTINGS = (*WAYS, "batchSize", "maxBatchDelay")
"""What a server takes of model-config.yaml beside a model file."""
DATATYPES = ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64",
             "BF16", "BYTES")  # fmt: skip
"""What a tensor may have there."""
_NESTED = (list, dict, set, bytes)

Document = dict[str, Any]


def settings_problem(content: bytes) -> str | None:
    """Return why settings cannot be read; None if they can."""
    return _read(content)[1]


def of_archive(content: bytes) -> Document:
    """Return an archive's settings, none where they cannot be read; of lists and mappings, only that they are such.

    Aliases make a small file large, or endless.
    """
    settings, _ = _read(content)
    return {str(name): type(value)() if isinstance(value, _NESTED) else value for name, value in settings.items()}


def of_model(content: bytes) -> tuple[Document, str | None]:
    """Return the inputs and outputs in the settings of a model file, those that are written as a server takes them.

    With them, why a server does not take the settings, as far as their names and datatypes tell.
    """
    settings, why = _read(content)
    if why:
        return {}, f"it is {why}"
    for name in settings:
        if isinstance(name, str) and name not in MODEL_SETTINGS:
            return {}, f"there is no setting {quoted(name)}, only {', '.join(MODEL_SETTINGS)}"
    declared = {way: tensors for way in WAYS if isinstance(tensors := settings.get(way), list)}
    for tensor in (tensor for tensors in declared.values() for tensor in tensors):
        datatype = tensor.get("datatype") if isinstance(tensor, dict) else None
        if isinstance(datatype, str) and datatype not in DATATYPES:
            return {}, f"there is no datatype {quoted(datatype)}, only {', '.join(DATATYPES)}"
    return {way: tensors for way, tensors in declared.items() if tensors and all(map(_is_tensor, tensors))}, None


def _read(content: bytes) -> tuple[Document, str | None]:
    """Return settings, and why they cannot be read. Those that are too large to be looked into are none."""
    if not content or len(content) > MAX_CHECKED:
        return {}, None
    import yaml  # is where archives are looked into, and not where they are only copied

    try:
        settings = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return {}, f"not YAML (line {mark.line + 1}: {error.problem})" if mark else f"not YAML ({error.problem})"
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, "not YAML"
    if settings is None or isinstance(settings, dict):
        return settings or {}, None
    return {}, "not a mapping of names to values"


def _is_tensor(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"name", "datatype", "shape"}:
        return False
    shape = value["shape"]
    return isinstance(value["name"], str) and isinstance(shape, list) and all(type(size) is int for size in shape)
