"""What a request's head may have in it: fields, the URL of a server, and its user as a field. Pure."""

from __future__ import annotations

import base64
import re
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from isvc.predict.errors import UnusableRequest

_FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")

_SCHEMES: Final = ("http://", "https://")
_BEGINNING: Final = re.compile(r"(?:https?(?:[:;][/\\]*|[/\\]{2,}))*[/\\]*", re.IGNORECASE)  # also http:/, https//
_FORM: Final = "http://HOST[:PORT]/PATH, or https://…"


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


def beginning(text: str) -> str:
    """Return what a text has as the scheme of a URL, also a miswritten one; empty if it has none of HTTP."""
    return next(_BEGINNING.finditer(text))[0]


def meant(text: str) -> str:
    """Return the URL that a text most likely means whose scheme is miswritten or left out, without its user."""
    begun = beginning(text)
    scheme, rest = _SCHEMES["https" in begun.lower()], text[len(begun) :].rpartition("://")[2]
    try:
        url, _ = without_user(f"{scheme}{rest}")
    except ValueError:
        url = ""
    return url if url not in ("", *_SCHEMES) else _FORM


def server_url(text: str) -> tuple[str, str]:
    """Return the URL of a server as ``without_user`` does.

    Raises UnusableRequest, with what is wrong and how to write it, for what is none.
    """
    begun = beginning(text)
    if begun.lower() not in _SCHEMES and (begun or "://" not in text):
        instead = f", not with {begun!r}" if begun else ""
        raise UnusableRequest(f"a URL begins with http:// or https://{instead}; write {meant(text)}")
    shown, reason = "this", "its host or port is invalid"
    try:
        url, authorization = without_user(text)
        shown, parts = repr(url), urlsplit(url)
        is_server = parts.hostname and parts.port != 0
    except ValueError:
        is_server = False
    if not begun:
        is_server, reason = False, "its scheme is neither http nor https"
    elif " " in text or not text.isprintable():
        is_server, reason = False, "it has a space or a control character"
    if not is_server:
        raise UnusableRequest(f"{shown} is not a URL of a server, as {reason}; write {_FORM}")
    return url, authorization
