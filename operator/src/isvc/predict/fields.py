"""What a request's head may have in it: fields, and the user of a URL as a field. Pure."""

from __future__ import annotations

import base64
import re
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

_FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")


def is_field(name: str, value: str) -> bool:
    """Whether a header field can have this name and this value: no line break can end it."""
    return _FIELD.fullmatch(f"{name}:{value}") is not None


def without_user(url: str) -> tuple[str, str]:
    """Return the URL without its user and password, and these as the value of Authorization; "" if it has none.

    Raises ValueError for what is no URL.
    """
    parts = urlsplit(url)
    user, at, server = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    name, _, password = user.partition(":")
    encoded = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    return urlunsplit(parts._replace(netloc=server)), f"Basic {encoded}"
