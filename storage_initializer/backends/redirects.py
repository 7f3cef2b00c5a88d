"""Requests that follow redirects, and the addresses that these lead to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import quote, urljoin, urlsplit

from storage_initializer.backends.client import Client, OpenResponse
from storage_initializer.errors import UnexpectedResponseError
from storage_initializer.limits import MAX_REDIRECTS
from storage_initializer.uri import split

_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_REDIRECTS = (301, 302, 303, 307, 308)


@contextmanager
def following(
    client: Client, url: str, headers: Mapping[str, str], *, own: Mapping[str, str]
) -> Iterator[OpenResponse]:
    """GET ``url`` and follow its redirects. The headers ``own`` are not sent to another origin than its own."""
    origin = origin_of(url)
    for _ in range(MAX_REDIRECTS + 1):
        sent = {**own, **headers} if origin_of(url) == origin else headers
        with client.request("GET", url, sent) as body:
            if body.status not in _REDIRECTS:
                yield body
                return
            url = redirected(url, body.headers.get("Location", ""))
    raise UnexpectedResponseError(
        f"{origin} redirects more than {MAX_REDIRECTS} times; give the address of the file itself"
    )


def redirected(url: str, location: str) -> str:
    """Return the URL that a redirect leads to. Pure."""
    parts = split(location)
    target = "" if parts is None else urljoin(url, quoted(location, also="[]#"))
    parts = split(target)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UnexpectedResponseError(f"{origin_of(url)} redirects to nowhere; give the address of the file itself")
    if url.startswith("https:") and parts.scheme == "http":
        raise UnexpectedResponseError(
            f"{origin_of(url)} redirects to {origin_of(target)}, and anybody on that way could change the file; "
            "give an address that stays with https"
        )
    return target


def quoted(target: str, also: str = "") -> str:
    """Quote blanks, umlauts and lone percent signs; what is quoted already stays."""
    return quote(_LONE_PERCENT.sub("%25", target), safe=f"/%:@!$&'()*+,;=~?{also}")


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
