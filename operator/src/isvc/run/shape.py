"""The parts of a pod's spec that are read here, checked as an API server does: so that what reads them may rely on it.

Other fields pass, and fields that are null are as if they were not there. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, ValidationError
from pydantic_core import core_schema as cs

from isvc.run.errors import UnusableInput
from isvc_operator.api.core_shapes import without_nulls
from isvc_operator.api.parsing import path_of
from isvc_operator.text import shortened

_KEY: Final = r"(?!\.\.)(?!\.\Z)[-._a-zA-Z0-9]{1,253}"
_SAID: Final = {"string_type": "it has to be a string; put it in quotes", "too_short": "it has to have an item"}


def is_key(key: object) -> bool:
    """Whether this may be a key of a ConfigMap or Secret, whose files have the names of the keys."""
    return isinstance(key, str) and re.fullmatch(_KEY, key) is not None


def pod_spec(value: Any, name: str) -> Any:
    """Return the spec of a pod; raises UnusableInput that begins with ``name`` and names the field."""
    return _checked(value, _POD, name)


def check_object(body: Any) -> None:
    """Check what is read of a secret, a ConfigMap or a service account; raises UnusableInput that names the field."""
    _checked(body, _OBJECT, body["kind"])


def _checked(value: Any, shape: SchemaValidator, name: str) -> Any:
    try:
        return shape.validate_python(without_nulls(value))
    except ValidationError as errors:
        error = errors.errors(include_url=False)[0]
    where = f"{name}: {path_of(error['loc'])}"
    if error["type"] == "missing":
        raise UnusableInput(f"{where} is missing; give it a value")
    what = _SAID.get(error["type"], error["msg"].replace("Input should", "it has to"))
    raise UnusableInput(f"{where} is {shortened(repr(error['input']), 80)}; {what}")


def _fields(required: Mapping[str, CoreSchema] = {}, /, **optional: CoreSchema) -> CoreSchema:
    fields = {name: cs.typed_dict_field(schema, required=True) for name, schema in required.items()}
    fields |= {name: cs.typed_dict_field(schema, required=False) for name, schema in optional.items()}
    return cs.typed_dict_schema(fields, extra_behavior="allow")


def _matching(pattern: str, what: str) -> CoreSchema:
    text = cs.str_schema(strict=True, pattern=rf"\A(?:{pattern})\Z", regex_engine="python-re")
    return cs.custom_error_schema(text, custom_error_type="no_match", custom_error_message=f"it has to be {what}")


def _whole(least: int, most: int = 2**31 - 1) -> CoreSchema:
    return cs.int_schema(strict=True, ge=least, le=most)


def _port(value: Any) -> Any:
    """Check a port, which may have a name: that of one of the container's."""
    if (isinstance(value, str) and value) or (type(value) is int and 1 <= value <= 65535):
        return value
    raise PydanticCustomError("port", "it has to be a whole number from 1 to 65535, or the name of a port")


_TEXT: Final = cs.str_schema(strict=True)
_LABEL: Final = _matching(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "a name of small letters, digits and '-'")
_OBJECT_NAME: Final = _matching(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", "the name of an object"
)
_REFERENCE: Final = _fields({"name": _OBJECT_NAME, "key": _matching(_KEY, "a key of the object")})
_PORT: Final = cs.no_info_plain_validator_function(_port)
_HEADER: Final = _fields({"name": _matching(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+", "the name of a header")}, value=_TEXT)
_PROBE: Final = _fields(
    exec=_fields({"command": cs.list_schema(_TEXT, min_length=1)}),
    httpGet=_fields(
        {"port": _PORT},
        path=_TEXT,
        scheme=cs.literal_schema(["HTTP", "HTTPS"]),
        host=_TEXT,
        httpHeaders=cs.list_schema(_HEADER),
    ),
    tcpSocket=_fields({"port": _PORT}, host=_TEXT),
    grpc=_fields({"port": _whole(1, 65535)}, service=_TEXT),
    initialDelaySeconds=_whole(0),
    periodSeconds=_whole(0),
    timeoutSeconds=_whole(0),
    successThreshold=_whole(0),
    failureThreshold=_whole(0),
)
_ANY_LIST: Final = cs.list_schema(cs.any_schema())  # whether these are strings is said with their values
_VARIABLE: Final = _fields(
    {"name": _matching(r"[^=\0]+", "the name of a variable")},
    valueFrom=_fields(secretKeyRef=_REFERENCE, configMapKeyRef=_REFERENCE),
)
_MOUNT: Final = _fields(
    {"name": _LABEL, "mountPath": _matching("/+[^/].*", "the whole path of a folder, such as /data")},
    subPath=_matching(r"(?!/)(?!(.*/)?\.\.(/|\Z)).*", "a path inside of the volume, without .."),
)
_CONTAINER: Final = _fields(
    {"name": _LABEL},
    image=_TEXT,
    command=_ANY_LIST,
    args=_ANY_LIST,
    workingDir=_TEXT,
    restartPolicy=_TEXT,
    ports=cs.list_schema(_fields({"containerPort": _whole(1, 65535)}, name=_TEXT)),
    env=cs.list_schema(_VARIABLE),
    volumeMounts=cs.list_schema(_MOUNT),
    readinessProbe=_PROBE,
    livenessProbe=_PROBE,
    startupProbe=_PROBE,
)
_VOLUME: Final = _fields(
    {"name": _LABEL},
    emptyDir=_fields(),
    persistentVolumeClaim=_fields({"claimName": _OBJECT_NAME}),
    secret=_fields({"secretName": _OBJECT_NAME}),
    configMap=_fields({"name": _OBJECT_NAME}),
    image=_fields({"reference": _TEXT}),
)
_TEXTS: Final = cs.dict_schema(_TEXT, _TEXT, strict=True)
_OBJECT: Final = SchemaValidator(
    _fields(
        {"metadata": _fields({"name": _TEXT}, namespace=_TEXT, annotations=_TEXTS, labels=_TEXTS)},
        type=_TEXT,
        secrets=cs.list_schema(_fields(name=_TEXT), strict=True),
    )
)
_POD: Final = SchemaValidator(
    _fields(
        {"containers": cs.list_schema(_CONTAINER, min_length=1)},
        initContainers=cs.list_schema(_CONTAINER),
        volumes=cs.list_schema(_VOLUME),
        terminationGracePeriodSeconds=_whole(0),
    )
)
