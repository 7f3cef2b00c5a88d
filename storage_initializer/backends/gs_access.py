"""Where Google Cloud Storage, or its emulator, is and as whom it is asked, read from the environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from storage_initializer.backends.google import GoogleIdentity, google_identity
from storage_initializer.backends.trust import Trust, trust_of
from storage_initializer.uri import checked_url

_ENDPOINT = "https://storage.googleapis.com"


@dataclass(frozen=True)
class GsAccess:
    endpoint: str
    identity: GoogleIdentity
    trust: Trust


def gs_access(environment: Mapping[str, str]) -> GsAccess:
    given = environment.get("STORAGE_EMULATOR_HOST") or _ENDPOINT
    endpoint = given if "://" in given else f"http://{given}"
    return GsAccess(
        endpoint=checked_url("STORAGE_EMULATOR_HOST", endpoint, "http://HOST[:PORT]"),
        identity=google_identity(environment),
        trust=trust_of(environment),
    )
