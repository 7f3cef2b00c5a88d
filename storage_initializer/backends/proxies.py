"""Chooses the proxy of a request by ``HTTP_PROXY``, ``HTTPS_PROXY`` and ``NO_PROXY``, lower case first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from storage_initializer.errors import AccessDeniedError, InitializerError, UnreachableError, UsageError

# What is on the node itself, which hands out credentials to those that come from there.
_ON_THE_NODE = ("169.254.0.0/16", "fd00:ec2::/32")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Proxy:
    """``variable`` is the environment variable that names it; ``login`` is USER:PASSWORD, quoted as in a URL."""

    host: str
    port: int
    variable: str
    login: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.login}{self.login and '@'}{self}"

    def refusal(self, server: str, why: str) -> InitializerError:
        # The text is `http.client`'s; other responses of the proxy may pass.
        refused = why.startswith(("407", "Tunnel connection failed: 4"))
        return (AccessDeniedError if refused else UnreachableError)(
            f"the proxy {self} does not connect to {server} ({why}); correct {self.variable}, or put it into NO_PROXY"
        )


@dataclass(frozen=True)
class Proxies:
    by_scheme: Mapping[str, Proxy]
    exempt: tuple[str, ...]

    def proxy_for(self, url: SplitResult) -> Proxy | None:
        """Return the proxy to this URL; None for a direct connection."""
        proxy = self.by_scheme.get(url.scheme)
        if proxy is None:
            return None
        host, port = url.hostname or "", url.port or _PORTS[url.scheme]
        return None if any(_covers(entry, host, port) for entry in (*self.exempt, *_ON_THE_NODE)) else proxy

    def describe(self, url: str) -> str:
        """Return the proxy to this URL, for the log; empty for a direct connection."""
        proxy = self.proxy_for(urlsplit(url))
        return f" (by the proxy {proxy})" if proxy else ""

    @property
    def no_proxy(self) -> str:
        return ",".join((*self.exempt, *_ON_THE_NODE))


def proxies_of(environment: Mapping[str, str]) -> Proxies:
    by_scheme = {}
    for scheme in _PORTS:
        for variable in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY"):
            if scheme not in by_scheme and (url := environment.get(variable)):
                by_scheme[scheme] = _proxy(url, variable)
    exempt = (environment.get("no_proxy") or environment.get("NO_PROXY", "")).split(",")
    return Proxies(by_scheme, tuple(entry.strip().lower() for entry in exempt if entry.strip()))


def _proxy(url: str, variable: str) -> Proxy:
    """Parse a proxy's URL. No message quotes it: it may hold a password."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or _PORTS["http"]
    except ValueError:
        host = None
    if not host or parts.scheme != "http":
        raise UsageError(f"{variable} names no HTTP proxy; write http://[USER:PASSWORD@]HOST:PORT")
    return Proxy(host, port, variable, parts.netloc.rpartition("@")[0])


def _covers(entry: str, host: str, port: int) -> bool:
    """Match an entry of NO_PROXY: ``*``, a domain with all below it, an address or a network, maybe with a port."""
    with suppress(ValueError):
        return ip_address(host) in ip_network(entry, strict=False)
    name, _, only_port = entry.partition(":")
    if only_port and only_port != str(port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return not name or host == name or host.endswith(f".{name}")
