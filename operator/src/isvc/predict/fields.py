"""What a request's head may have in it: fields, the URL of a server, and its user as a field. Pure."""

from __future__ import annotations

import base64
import re
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from isvc.predict.errors import UnusableRequest

_FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")

_SCHEME: Final = re.compile(r"https?[:/]|.*://", re.IGNORECASE)  # also a miswritten one
_FORM: Final = "http://HOST[:PORT]/PATH, or https://…"


def is_field(name: str, value: str) -> bool:
    """Whether a header field can have this name and this value: no line break can end it, and a Host is one."""
    try:
        urlsplit(f"//{value}" if name.lower() == "host" else "")
    except ValueError:
        return False
    return _FIELD.fullmatch(f"{name}:{value}") is not None


def without_user(url: str) -> tuple[str, str]:
    """Return the URL without its user and password, and these as the value of Authorization; "" if it has none.

    Raises ValueError for what is not a URL.
    """
    parts = urlsplit(url)
    user, at, server = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    name, _, password = user.partition(":")
    encoded = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    return urlunsplit(parts._replace(netloc=server)), f"Basic {encoded}"


def server_url(text: str) -> tuple[str, str]:
    """Return the URL of a server as ``without_user`` does; an address without a scheme is one of HTTP.

    Raises UnusableRequest, with how to write one, for what is none.
    """
    try:
        url, authorization = without_user(text if _SCHEME.match(text) else f"http://{text}")
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_server = False
    if not is_server or " " in text or not text.isprintable():
        _, at, server = text.rpartition("@")
        raise UnusableRequest(f"{(f'…@{server}' if at else text)!r} is not the URL of a server; write {_FORM}")
    return url, authorization
