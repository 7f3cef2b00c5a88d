"""Schemas for the parts of core/v1 values that the operator reads; the rest is passed on unchanged.

The API server stores a container in a custom resource without validation, and validates it in the Deployment. The
parts that are read before that are validated here, so that a number in place of a list is reported in the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core import core_schema as cs

from isvc_operator.api.quantity import checked_amount, checked_quantity


@dataclass(frozen=True, eq=False)  # a schema cannot be hashed
class Shaped:
    """Validates a core/v1 value with this schema. The JSON schema in the CRD does not change."""

    shape: CoreSchema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        as_it_is = cs.simple_ser_schema("any")
        shaped = cs.no_info_wrap_validator_function(_checked, self.shape, serialization=as_it_is)
        return cs.json_or_python_schema(handler(source), shaped, serialization=as_it_is)


def _checked(value: Any, check: cs.ValidatorFunctionWrapHandler) -> Any:
    check(without_nulls(value))
    return value  # unchanged


def without_nulls(value: Any) -> Any:
    """Return the value without null fields: for Kubernetes they are absent."""
    if isinstance(value, Mapping):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _object(required: Mapping[str, CoreSchema] = {}, /, **optional: CoreSchema) -> CoreSchema:
    fields = {name: cs.typed_dict_field(shape, required=True) for name, shape in required.items()}
    fields |= {name: cs.typed_dict_field(shape, required=False) for name, shape in optional.items()}
    return cs.typed_dict_schema(fields, extra_behavior="allow")


_TEXT: Final = cs.str_schema(strict=True)
_NUMBER: Final = cs.int_schema(strict=True)
_ANY_OBJECT: Final = cs.dict_schema(_TEXT, cs.any_schema(), strict=True)
_ANY_LIST: Final = cs.list_schema(cs.any_schema(), strict=True)

_QUANTITY: Final = cs.no_info_plain_validator_function(checked_quantity)
_AMOUNT: Final = cs.no_info_plain_validator_function(checked_amount)
AMOUNTS: Final = cs.dict_schema(_TEXT, _AMOUNT, strict=True)

NAMED: Final = _object(name=_TEXT)
VARIABLE: Final = _object({"name": _TEXT}, valueFrom=_object(resourceFieldRef=_object(divisor=_QUANTITY)))
PORT: Final = _object({"containerPort": _NUMBER}, name=_TEXT, protocol=_TEXT)
MOUNT: Final = _object(name=_TEXT, mountPath=_TEXT)
RESOURCES: Final = _object(requests=AMOUNTS, limits=AMOUNTS)
VOLUME: Final = _object(
    name=_TEXT,
    emptyDir=_object(sizeLimit=_AMOUNT),
    ephemeral=_object(volumeClaimTemplate=_object(spec=_object(resources=RESOURCES))),
)
LIFECYCLE: Final = _object(preStop=_object(sleep=_object(seconds=_NUMBER)), postStart=_ANY_OBJECT)
CONTAINER: Final = _object(
    name=_TEXT,
    image=_TEXT,
    command=_ANY_LIST,
    args=_ANY_LIST,
    env=cs.list_schema(VARIABLE),
    ports=cs.list_schema(PORT),
    volumeMounts=cs.list_schema(MOUNT),
    resources=RESOURCES,
    lifecycle=LIFECYCLE,
    securityContext=_ANY_OBJECT,
    livenessProbe=_ANY_OBJECT,
    readinessProbe=_ANY_OBJECT,
    startupProbe=_ANY_OBJECT,
)
