"""What is sent, where to, how much of it, and what was seen. Pure."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from isvc.predict.fields import is_field, without_user
from isvc_operator.errors import InvalidSpec

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class AddressedRequest:
    """A request, and the address that it is sent to."""

    host: str
    port: int
    is_tls: bool
    server_name: str
    """Whose certificate is wanted, with TLS: the host that is asked for, be it behind another address."""
    message: bytes
    """The whole request, as it is sent."""
    is_head: bool = False
    """Its response has no body, whatever the length that it names."""
    url: str = ""
    """Without a user and a password, so that it can be shown."""


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """How much is sent. Without a rate, each connection sends its next request when it has its response."""

    connections: int
    seconds: float
    requests: int
    """At most so many."""
    rate: float = 0
    """Requests a second, whatever comes back; 0 for a closed loop."""
    timeout: float
    """Seconds until a request counts as failed."""


@dataclass
class Responses:
    """What came back."""

    latencies: array[float] = field(default_factory=lambda: array("d"))
    """Seconds of each response: in a closed loop since its request was sent, at a rate since it was due."""
    late: array[float] = field(default_factory=lambda: array("d"))
    """At a rate: seconds between when each request was due and when it was sent."""
    statuses: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    unsent: int = 0
    """At a rate: requests that were due, and had found no free connection by the end."""
    received: int = 0
    """Bytes."""
    interrupted: bool = False
    """By Ctrl-C. What was under way then counts as nothing."""
    seconds: float = 0
    cpu_seconds: float = 0
    """Of this process."""

    @property
    def answered(self) -> int:
        return len(self.latencies)

    @property
    def failed(self) -> int:
        """How many got another status than 2xx, or no response."""
        refused = sum(count for status, count in self.statuses.items() if not 200 <= status < 300)
        return refused + self.errors.total() + self.unsent


def target(url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> AddressedRequest:
    """Return what is sent to a URL; raise InvalidSpec for one that names no server, and for an invalid header.

    A user and a password in the URL are sent as Basic credentials.
    """
    try:
        url, authorization = without_user(url)
    except ValueError:
        raise InvalidSpec("this is not a URL; write http://HOST[:PORT]/PATH, or https://…") from None
    parts = _parts(url)
    for name, value in headers.items():
        if not is_field(name, value):
            raise InvalidSpec(f"{f'{name}: {value}'!r} cannot be a header; write NAME: VALUE")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lengths = {"Content-Length": str(len(body))} if body or method in ("POST", "PUT", "PATCH") else {}
    fields = {"Host": parts.netloc, "User-Agent": "isvc-bench", "Accept": "*/*", **lengths}
    fields |= {"Authorization": authorization} if authorization else {}
    given = {name.lower() for name in headers}
    fields = {name: value for name, value in fields.items() if name.lower() not in given} | dict(headers)
    head = "".join([f"{method} {path} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in fields.items())])
    port = parts.port or _PORTS[parts.scheme]
    host = next((value for name, value in fields.items() if name.lower() == "host"), "")
    wanted = _parts(f"{parts.scheme}://{host}").hostname or ""
    message = head.encode("latin-1") + b"\r\n" + body
    return AddressedRequest(
        str(parts.hostname), port, parts.scheme == "https", wanted, message, is_head=method == "HEAD", url=url
    )


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError as error:
        raise InvalidSpec(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname or not has_port:
        raise InvalidSpec(f"{url!r} is not a URL of a server; write http://HOST[:PORT]/PATH, or https://…")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidSpec(f"{url!r} has characters that a URL cannot have; write them as %XX")
    return parts
