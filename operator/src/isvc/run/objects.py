"""Secrets, service accounts and ConfigMaps in the same files as the services. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core import core_schema as cs

from isvc.run.errors import UnusableInput
from isvc_operator.api.core_shapes import object_shape, without_nulls
from isvc_operator.api.names import CONFIG_MAP
from isvc_operator.api.parsing import path_of
from isvc_operator.errors import ConfigError
from isvc_operator.manifests import Manifest, Volume
from isvc_operator.resolve.storage.plan import ObjectReference, Objects
from isvc_operator.text import shortened

_KEY: Final = re.compile(r"(?!\.\.)(?!\.\Z)[-._a-zA-Z0-9]{1,253}")  # the files of a volume have the names of the keys
_TEXT: Final = cs.str_schema(strict=True)
_TEXTS: Final = cs.dict_schema(_TEXT, _TEXT, strict=True)
# What is read of a secret, a ConfigMap or a service account.
_OBJECT: Final = SchemaValidator(
    object_shape(
        {"metadata": object_shape({"name": _TEXT}, namespace=_TEXT, annotations=_TEXTS, labels=_TEXTS)},
        type=_TEXT,
        secrets=cs.list_schema(object_shape(name=_TEXT), strict=True),
    )
)


def as_stored(body: Mapping[str, Any]) -> Manifest:
    """Return the object as an API server would store it: a secret's ``stringData`` is encoded into ``data``.

    Raises UnusableInput for data that it would refuse.
    """
    _check(body)
    if body["kind"] != "Secret":
        return body
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in _texts(body, "stringData").items()}
    kept = {name: value for name, value in body.items() if name != "stringData"}
    stored = {**kept, "data": {**_texts(body, "data"), **encoded}}
    _contents(stored)
    return stored


def _check(body: Manifest) -> None:
    try:
        _OBJECT.validate_python(without_nulls(body))
    except ValidationError as errors:
        error = errors.errors(include_url=False)[0]
        where = f"{body['kind']}: {path_of(error['loc'])}"
        if error["type"] == "missing":
            raise UnusableInput(f"{where} is missing; give it a value") from None
        as_text = "it has to be a string; put it in quotes"
        what = as_text if error["type"] == "string_type" else error["msg"].replace("Input should", "it has to")
        raise UnusableInput(f"{where} is {shortened(repr(error['input']), 80)}; {what}") from None


def configuration_in(objects: Iterable[Manifest]) -> Mapping[str, str]:
    """Return the data of the last ConfigMap ``inferenceservice-config``, or none; raises ConfigError."""
    found = [body for body in objects if (body["kind"], body["metadata"]["name"]) == ("ConfigMap", CONFIG_MAP)]
    data = found[-1].get("data") if found else None
    if not isinstance(data or {}, Mapping):
        raise ConfigError(f"ConfigMap {CONFIG_MAP}: data is not a map of keys to texts")
    return {str(key): str(text) for key, text in (data or {}).items()}


def text_of(source: Mapping[str, Any], objects: Objects) -> str | None:
    """Return the value of a variable's ``valueFrom``; None if no file has it."""
    for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if reference := source.get(field):
            found = _contents(objects.get(ObjectReference(kind, reference["name"]))).get(reference["key"])
            return None if found is None else found.decode(errors="replace")
    return None


def files_of(volume: Volume, objects: Objects) -> Mapping[str, bytes] | None:
    """Return the files of a volume of a secret or ConfigMap; None if the object is in no file."""
    if "secret" in volume:
        body = objects.get(ObjectReference("Secret", volume["secret"]["secretName"]))
    elif "configMap" in volume:
        body = objects.get(ObjectReference("ConfigMap", volume["configMap"]["name"]))
    else:
        return None
    return None if body is None else _contents(body)


def _contents(body: Manifest | None) -> Mapping[str, bytes]:
    if body is None:
        return {}
    texts = _texts(body, "data")
    if body["kind"] == "Secret":
        return {key: _decoded(body, key, text) for key, text in texts.items()}
    binary = {key: _decoded(body, key, text) for key, text in _texts(body, "binaryData").items()}
    return {key: text.encode() for key, text in texts.items()} | binary


def _texts(body: Manifest, field: str) -> Mapping[str, str]:
    """Return the values of a Secret or ConfigMap; raises UnusableInput for what an API server would refuse."""
    name, data = f"{body['kind']} {body['metadata']['name']}", body.get(field) or {}
    if not isinstance(data, Mapping):
        raise UnusableInput(f"{name}: {field} is not a map of keys to texts")
    for key, text in data.items():
        if not (isinstance(key, str) and _KEY.fullmatch(key)):
            what = "a key may only have letters, digits, '-', '_' and '.', and does not begin with '..'"
            raise UnusableInput(f"{name}: {field} has the key {shortened(repr(key), 80)}; {what}")
        if not isinstance(text, str):
            raise UnusableInput(f"{name}: the value of key {key} in {field} is not a string; put it in quotes")
    return data


def _decoded(body: Manifest, key: str, text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        name = f"{body['kind']} {body['metadata']['name']}"
        raise UnusableInput(
            f"{name}: the value of key {key} in data is not Base64; write the text below stringData"
        ) from None
