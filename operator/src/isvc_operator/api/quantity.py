"""Kubernetes quantities such as ``500m``, ``1Gi``, ``2e3`` and 0.5: their numbers, and fields that hold one."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal
from typing import Annotated, Any, Final

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

QUANTITY_SCHEMA: Final = {
    "x-kubernetes-preserve-unknown-fields": True,
    "pattern": r"^[+-]?(\d+\.?|\.\d)\d*([numk]|Ki|[MGTPE]i?|[eE][+-]?\d+)?$",
}
"""What the CRD says of a quantity: a text has this form. It may also be any number; a CRD has no type for that, since
``x-kubernetes-int-or-string`` is without fractions. What is neither is for the models to refuse.

KServe's pattern accepts the same, and fractions as exponents, which Kubernetes refuses; it is too long for a CRD that
``kubectl apply`` has to keep in an annotation."""

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([num]|[kMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
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
    match = _QUANTITY.fullmatch(text) if len(text := str(value)) <= _LONGEST else None
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
