"""Values of options that Click has no type for."""

from __future__ import annotations

import os
from math import isfinite
from typing import Final
from urllib.parse import urlsplit

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


class PositiveNumber(click.ParamType[float]):
    """A finite number above 0 and at most ``most``. Click's own range lets NaN through, which compares with nothing."""

    name = "number"

    def __init__(self, most: float) -> None:
        self._most = most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fails for any other text."""
        text = str(value)
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if not (isfinite(number) and 0 < number <= self._most):
            self.fail(f"{text!r} is not a number above 0 and at most {self._most:g}.", param, ctx)
        return number


class Text(click.ParamType[str]):
    """A text that is not empty: an empty one, as of a variable that is not set, would be as if it were not given."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; fails for an empty one."""
        if not value:
            self.fail("it is empty; give a value, or leave the option out.", param, ctx)
        return str(value)


def refuse(why: str, **flags: object) -> None:
    """Raise a usage error for the first of the flags that is given; ``why`` is what people read after its name."""
    for name, given in flags.items():
        if given:
            raise click.UsageError(f"--{name.replace('_', '-')} {why}")


def without_at(data: str | None) -> str:
    """Return that the data of a request is a file's name instead of its content; empty if it is not."""
    is_name = data and os.path.isfile(data)  # noqa: PTH113 - a Path raises for a text that is too long for one
    return f"{data} is a file; to send what is in it, write -d @{data}" if is_name else ""


_PORTS: Final = {"http": 80, "https": 443}
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


class Origin(click.ParamType[str]):
    """The beginning of a page's address, as browsers send it: ``https://dashboard.example.com``."""

    name = "url"

    def split_envvar_value(self, rv: str) -> list[str]:
        """Return the origins in a variable, which has commas between them."""
        return [origin for item in rv.split(",") if (origin := item.strip())]

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the scheme, the host and a port that is not the scheme's own; fails for any other text."""
        from isvc.predict.errors import UnusableRequest
        from isvc.predict.fields import server_url

        text = str(value)
        try:
            url = urlsplit(server_url(text)[0])
        except UnusableRequest:
            url = urlsplit("")
        is_origin = url.scheme and "://" in text and "@" not in text and url.path in ("", "/") and not url.query
        if not is_origin:
            self.fail(f"{text!r} is not an origin such as https://dashboard.example.com.", param, ctx)
        host, port = url.hostname or "", url.port
        name = f"[{host}]" if ":" in host else host
        return f"{url.scheme}://{name}" + (f":{port}" if port and port != _PORTS[url.scheme] else "")
