"""Values of options that Click has no type for."""

from __future__ import annotations

from typing import Final

import click


class WholeNumber(click.ParamType[int]):
    """A whole number from ``least`` to ``most``."""

    name = "number"

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; fails for any other text."""
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) < 20 and self._least <= int(text) <= self._most):
            self.fail(f"{text!r} is not a whole number from {self._least} to {self._most}.", param, ctx)
        return int(text)


_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


class Seconds(click.ParamType[int]):
    """A time such as 90, 90s, 5m or 2h, in whole seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds; fails for any other text."""
        text = str(value)
        number = text.rstrip("smhd")
        unit = _UNITS.get(text[len(number) :])
        if unit is None or not (number.isascii() and number.isdigit() and 0 < len(number) < 9):
            self.fail(f"{text!r} is not a time such as 90s, 5m or 2h.", param, ctx)
        return int(number) * unit
