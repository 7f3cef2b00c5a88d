"""What a validation rule consists of: an expression in CEL, and what is said if it is not true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """A CEL expression that must be true, and the message and the field if it is not.

    ``counted`` is a CEL expression for a number that the message starts with.
    """

    expression: str
    message: str
    field: str = ""
    only_on_create: bool = False
    counted: str = ""

    def as_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"rule": self.expression, "message": self.message}
        if self.counted:
            result["messageExpression"] = f'"%d {self.message}".format([{self.counted}])'
        if self.only_on_create:
            # A name cannot be changed: the status of an existing service must still be writable.
            result |= {"rule": f"oldSelf.hasValue() || ({self.expression})", "optionalOldSelf": True}
        return result | ({"fieldPath": self.field} if self.field else {})


def has_variable(container: str, name: str) -> str:
    return f"(has({container}.env) && {container}.env.exists(v, has(v.name) && v.name == '{name}'))"
