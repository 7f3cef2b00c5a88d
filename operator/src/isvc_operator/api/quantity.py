"""Kubernetes quantities such as ``500m``, ``1Gi`` and ``2e3`` as numbers."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(r"^([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([num]|[kMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$")
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
    match = _QUANTITY.match(text) if len(text := str(value)) <= _LONGEST else None
    if match is None:
        return None
    number, suffix = match[1], match[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return Decimal(number + suffix) if len(suffix) < _LONGEST_EXPONENT else None
    return Decimal(number) * _SUFFIXES[suffix]
