"""AWS Signature Version 4 for a request without a body, as S3 and compatible stores require it. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from urllib.parse import quote, urlsplit

_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Keys:
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


def canonical_query(parameters: Mapping[str, str]) -> str:
    """Return the query in the canonical form, without which the signature does not match."""
    return "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in sorted(parameters.items()))


def sign(
    method: str, url: str, headers: Mapping[str, str], *, keys: Keys, region: str, now: datetime, service: str = "s3"
) -> dict[str, str]:
    """Return the headers to send. Path and query of the URL are quoted already, the query by ``canonical_query``."""
    parts, time = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    signed = {name.lower(): value.strip() for name, value in headers.items()}
    signed |= {"host": parts.netloc, "x-amz-content-sha256": _EMPTY, "x-amz-date": time}
    if keys.session_token:
        signed["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(signed))
    lines = (f"{name}:{signed[name]}" for name in sorted(signed))
    canonical = "\n".join((method, parts.path or "/", parts.query, *lines, "", names, _EMPTY))
    scope = f"{time[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.new(_signing_key(keys.secret_key, scope), text.encode(), "sha256").hexdigest()
    credential = f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}"
    return {**signed, "Authorization": f"{credential}, SignedHeaders={names}, Signature={signature}"}


@cache
def _signing_key(secret_key: str, scope: str) -> bytes:
    """Return the key of a day, region and service."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
