"""Addresses of predictors, as given with --predictor_host. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

_PORTS = {"http": 80, "https": 443}


class BadAddress(ValueError):
    """A text that is not the address of an HTTP server."""


def split(url: str) -> tuple[str, str]:
    """Split a URL into its server and its request target (path and query)."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return f"{parts.scheme}://{parts.netloc}", urlunsplit(("", "", parts.path or "/", parts.query, ""))


@dataclass(frozen=True, slots=True)
class Address:
    """A server and the prefix of all its paths."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse a URL, `host`, `host:port` or `host/prefix`; plain HTTP is the default scheme. Raises BadAddress."""
        try:
            url = urlsplit(text if "://" in text else f"http://{text}")
            port = url.port
        except ValueError as error:
            raise BadAddress(f"{text!r} is not an address: {error}; give HOST or HOST:PORT.") from error
        if url.scheme not in _PORTS or not url.hostname or url.query or url.fragment:
            raise BadAddress(f"{text!r} is not an address of an HTTP server; give HOST, HOST:PORT or a URL.")
        return cls(url.scheme, url.hostname, port or _PORTS[url.scheme], url.path.rstrip("/"))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"
