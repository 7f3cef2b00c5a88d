"""The parts of a storage URI. Pure.

Paths are taken literally, as KServe takes them: a file may be called ``50%.mar`` or ``a#b.mar``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from storage_initializer.errors import UsageError

LOCAL_SCHEME = "file"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_QUOTED = re.compile(r"[!-~]+")  # no library quotes the others


@dataclass(frozen=True)
class Uri:
    """``scheme://authority/path``; a plain path is a ``file`` URI without an authority."""

    text: str
    scheme: str
    authority: str
    path: str

    @property
    def shown(self) -> str:
        """The URI for the log, without a login, and without a query of a web address, which may be a signature."""
        login, at, host = self.authority.rpartition("@")
        if self.scheme in ("http", "https"):
            path, query, _ = self.path.partition("?")
            return f"{self.scheme}://{host}/{path}{query and '?…'}"
        is_container = self.scheme in ("abfs", "abfss") and ":" not in login
        return f"{self.scheme}://{host}/{self.path}" if at and not is_container else self.text


def parse_uri(text: str) -> Uri:
    if not text or "\0" in text:
        raise UsageError(f"the source {text!r} is not a URI or path; write pvc://CLAIM/PATH or a path")
    match = _SCHEME.fullmatch(text)
    if match is None:
        return Uri(text, LOCAL_SCHEME, "", text)
    authority, slash, path = match["rest"].partition("/")
    scheme = match["scheme"].lower()
    # Only a file URI's path starts at the root; elsewhere the slash merely ends the authority.
    return Uri(text, scheme, authority, slash + path if scheme == LOCAL_SCHEME else path)


def checked_url(name: str, url: str, form: str = "https://HOST[:PORT]") -> str:
    """Return the URL of a server without the slashes at its end; raise UsageError, with the setting's name, for another
    text."""
    parts = split(url)
    is_whole = parts and parts.scheme in ("http", "https") and parts.hostname and not parts.netloc.endswith(":")
    if not is_whole or not _QUOTED.fullmatch(url):
        raise UsageError(f"{name} is {url!r}, which is not a URL; write {form}")
    return url.rstrip("/")


def split(url: str) -> SplitResult | None:
    """Return None for an invalid URL, such as one with an invalid port."""
    try:
        parts = urlsplit(url)
        return None if parts.port == 0 else parts
    except ValueError:
        return None
