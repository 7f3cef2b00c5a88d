"""Kubernetes quantities, and schemas for the parts of core/v1 values that the operator reads.

The API server stores a container in a custom resource without validation, and validates it in the Deployment. The
parts that are read before that are validated here, so that a number in place of a list is reported in the status. The
rest is passed on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from typing import Annotated, Any, Final

from pydantic import GetCoreSchemaHandler, PlainValidator, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core import core_schema as cs

QUANTITY_SCHEMA: Final = {
    "x-kubernetes-preserve-unknown-fields": True,
    "pattern": r"^[+-]?(\d+\.?|\.\d)\d*([numk]|Ki|[MGTPE]i?|[eE][+-]?\d+)?$",
}
"""What the CRD says of a quantity: a text has this form. It may also be any number; a CRD has no type for that, since
``x-kubernetes-int-or-string`` is without fractions. What is neither is for the models to refuse.

KServe's pattern accepts the same, and fractions as exponents, which Kubernetes refuses; it is too long for a CRD that
``kubectl apply`` has to keep in an annotation."""

_QUANTITY_FORM = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([num]|[kMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_LONGEST = 100  # characters; Kubernetes writes shorter ones
_LONGEST_EXPONENT = 6  # characters, including letter and sign
_SUFFIXES: dict[str, Decimal] = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(1000),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("MGTPE", start=2)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def quantity(value: Any) -> Decimal | None:
    """Return a quantity as a number (``"500m"`` and ``0.5`` are equal); None if it is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    match = _QUANTITY_FORM.fullmatch(text) if len(text := str(value)) <= _LONGEST else None
    if match is None:
        return None
    number, suffix = match[1], match[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return Decimal(number + suffix) if len(suffix) < _LONGEST_EXPONENT else None
    return Decimal(number) * _SUFFIXES[suffix]


def fraction_as_text(number: float) -> str:
    """Return a fraction as Kubernetes writes it: 0.5 as ``500m``. What is finer than a billionth is rounded up."""
    amounts = ((Decimal(str(number)) / _SUFFIXES[suffix], suffix) for suffix in "mun")
    amount, suffix = next(it for it in amounts if it[0] % 1 == 0 or it[1] == "n")
    return f"{amount.to_integral_value(ROUND_UP):f}{suffix}"


def checked_quantity(value: Any) -> Any:
    """Return the value as it is; raises PydanticCustomError if it is not a quantity."""
    if quantity(value) is None:
        raise PydanticCustomError("quantity", "this is not a quantity; write one such as 500m or 2Gi")
    return value


def checked_amount(value: Any) -> Any:
    """Return the value as it is; raises PydanticCustomError if it is not a quantity, or below 0."""
    if (quantity(checked_quantity(value)) or 0) < 0:
        raise PydanticCustomError("quantity", "this is below 0; write a quantity such as 500m or 2Gi")
    return value


Quantity = Annotated[int | float | str, PlainValidator(checked_quantity), WithJsonSchema(QUANTITY_SCHEMA)]


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


def object_shape(required: Mapping[str, CoreSchema] = {}, /, **optional: CoreSchema) -> CoreSchema:
    """Return the schema of an object that has these fields, and may have others."""
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

NAMED: Final = object_shape(name=_TEXT)
_FIELD_OF_RESOURCES: Final = object_shape(divisor=_QUANTITY)
VARIABLE: Final = object_shape({"name": _TEXT}, valueFrom=object_shape(resourceFieldRef=_FIELD_OF_RESOURCES))
PORT: Final = object_shape({"containerPort": _NUMBER}, name=_TEXT, protocol=_TEXT)
MOUNT: Final = object_shape(name=_TEXT, mountPath=_TEXT)
RESOURCES: Final = object_shape(requests=AMOUNTS, limits=AMOUNTS)
VOLUME: Final = object_shape(
    name=_TEXT,
    emptyDir=object_shape(sizeLimit=_AMOUNT),
    ephemeral=object_shape(volumeClaimTemplate=object_shape(spec=object_shape(resources=RESOURCES))),
)
LIFECYCLE: Final = object_shape(preStop=object_shape(sleep=object_shape(seconds=_NUMBER)), postStart=_ANY_OBJECT)
CONTAINER: Final = object_shape(
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
