"""The public names of KServe's SDK by module, and what either SDK has under each, as far as it shows at rest."""

from __future__ import annotations

import ast
import enum
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from tests.conformance.sdk.values import plain

# The modules that authors of transformers and predictors import from.
MODULES = (
    "model", "model_server", "model_repository", "predictor_config", "context", "inference_client",
    "protocol.infer_type", "protocol.grpc.grpc_predict_v2_pb2", "protocol.dataplane",
    "protocol.model_repository_extension", "errors", "logging", "constants.constants", "utils.utils",
    "utils.numpy_codec", "utils.inference_client_factory", "metrics", "ray",
)  # fmt: skip
# Those that have a server or a client of another kind, each as one name.
WHOLE_MODULES = ("protocol.rest.openai", "protocol.rest.timeseries", "protocol.rest.v2_datamodels", "api", "models")
MISSING = {"kind": "missing"}


def of_kserve() -> list[str]:
    """`module.name` and `module.Class.member`, of what each module defines itself."""
    found = [one for module in MODULES for name in _defined(module) for one in (name, *_members(name))]
    return [*found, *WHOLE_MODULES]


def described(package: str, name: str) -> Any:
    """A function's parameters, a constant's value; of other things their kind. MISSING where there is nothing."""
    if name in WHOLE_MODULES:
        return {"kind": "module"} if importlib.util.find_spec(package) and _has_module(package, name) else MISSING
    try:
        return _described(*_found(package, name))
    except (ImportError, AttributeError):
        return {"kind": "unknown"} if package == "kserve" else MISSING


def _has_module(package: str, name: str) -> bool:
    try:
        return importlib.util.find_spec(f"{package}.{name}") is not None
    except ModuleNotFoundError:
        return False


def _module_of(name: str) -> str:
    return max((module for module in MODULES if name.startswith(f"{module}.")), key=len)


def _found(package: str, name: str) -> tuple[Any, bool]:
    """The thing, and whether it is a class's member."""
    module = _module_of(name)
    own, _, member = name.removeprefix(f"{module}.").partition(".")
    one = getattr(importlib.import_module(f"{package}.{module}"), own)
    if not member:
        return one, False
    try:
        return inspect.getattr_static(one, member), True
    except AttributeError:
        if package == "kserve":
            raise
        annotated = any(member in vars(base).get("__annotations__", {}) for base in one.__mro__)
        return property() if annotated or member in _set_by_init(one) else getattr(one, member), True


def _set_by_init(one: type) -> set[str]:
    """The attributes that a class gives its objects when they are made."""
    made = [vars(base)["__init__"] for base in one.__mro__ if "__init__" in vars(base) and base is not object]
    return {name for init in made for name in init.__code__.co_names}


def _described(one: Any, is_member: bool) -> Any:
    if isinstance(one, property) or (is_member and not callable(getattr(one, "__func__", one))):
        return {"kind": "attribute"}
    if getattr(one, "__module__", "") == "typing":
        return {"kind": "type"}
    if isinstance(one, enum.EnumType):
        return {"kind": "value", "value": {each.name: each.value for each in one}}
    if inspect.isclass(one):
        return {"kind": "class"}
    if callable(function := getattr(one, "__func__", one)):
        return {"kind": "function", "parameters": [name for name in inspect.signature(function).parameters
                                                   if name not in ("self", "cls")]}  # fmt: skip
    if isinstance(one, (str, int, list, tuple)):
        return {"kind": "value", "value": plain(one)}
    return {"kind": "object"}


def _defined(module: str) -> Iterator[str]:
    """By the source, as some modules need what is not installed."""
    if module.endswith("_pb2"):
        messages = vars(importlib.import_module(f"kserve.{module}"))
        yield from (f"{module}.{name}" for name, one in messages.items() if _is_message(one))
        return
    spec = importlib.util.find_spec(f"kserve.{module}")
    assert spec is not None
    assert spec.origin is not None
    for node in ast.parse(Path(spec.origin).read_text()).body:
        names = [node.name] if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) else []
        for target in node.targets if isinstance(node, ast.Assign) else ():
            names += [one.id for one in ast.walk(target) if isinstance(one, ast.Name)]
        yield from (f"{module}.{name}" for name in names if not name.startswith("_"))


def _is_message(one: Any) -> bool:
    return inspect.isclass(one) and issubclass(one, Message)


def _members(name: str) -> Iterator[str]:
    try:
        one, _ = _found("kserve", name)
    except ImportError:
        return
    if not inspect.isclass(one) or issubclass(one, (enum.Enum, BaseException, Message)) or hasattr(one, "model_fields"):
        return
    for member in dir(one):
        if member == "__init__" or (not member.startswith("_") and not hasattr(object, member)):
            yield f"{name}.{member}"
