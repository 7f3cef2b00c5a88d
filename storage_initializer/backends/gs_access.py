"""Where Google Cloud Storage, or its emulator, is and as whom it is asked, read from the environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from storage_initializer.backends.google import GoogleIdentity, google_identity
from storage_initializer.backends.trust import Trust, trust_of
from storage_initializer.errors import UsageError
from storage_initializer.uri import split

_ENDPOINT = "https://storage.googleapis.com"


@dataclass(frozen=True)
class GsAccess:
    endpoint: str
    identity: GoogleIdentity
    trust: Trust


def gs_access(environment: Mapping[str, str]) -> GsAccess:
    given = environment.get("STORAGE_EMULATOR_HOST", "").rstrip("/") or _ENDPOINT
    endpoint = given if "://" in given else f"http://{given}"
    if split(endpoint) is None:
        raise UsageError(f"STORAGE_EMULATOR_HOST is {endpoint!r}, which is not a URL; write http://HOST[:PORT]")
    return GsAccess(
        endpoint=endpoint,
        identity=google_identity(environment),
        trust=trust_of(environment),
    )
