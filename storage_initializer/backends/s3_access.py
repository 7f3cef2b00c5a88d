"""The endpoint, region and identity for a bucket, from the environment. Pure.

The names are KServe's: those of a service account's secrets, and ``STORAGE_CONFIG`` with ``STORAGE_OVERRIDE_CONFIG``
for a key of the secret ``storage-config`` and the service's own ``storage.parameters``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from storage_initializer.backends.aws import AwsIdentity, aws_identity, domain_of, is_true
from storage_initializer.backends.trust import Trust, trust_of
from storage_initializer.errors import UsageError
from storage_initializer.schemes import ENTRY_FIELDS
from storage_initializer.uri import checked_url

DEFAULT_REGION = "us-east-1"
_REGION = re.compile(r"[\w.-]+", re.ASCII)  # it becomes a part of a host's name and of signatures


@dataclass(frozen=True)
class S3Access:
    """``service`` is the endpoint; a ``virtual`` bucket is in its host's name; ``note`` is for the log."""

    bucket: str
    service: str
    virtual: bool
    region: str
    identity: AwsIdentity
    trust: Trust
    note: str = ""

    @property
    def bucket_url(self) -> str:
        scheme, _, host = self.service.partition("://")
        return f"{scheme}://{self.bucket}.{host}" if self.virtual else f"{self.service}/{self.bucket}"

    def __str__(self) -> str:
        unchecked = "" if self.trust.verify else ", certificates not checked"
        return f"endpoint {self.service}, region {self.region}{unchecked}{self.note and ', '}{self.note}"


def s3_access(bucket: str, environment: Mapping[str, str]) -> S3Access:
    entry, note = _entry(environment)
    settings = {**environment, **entry}
    region = settings.get("AWS_DEFAULT_REGION") or settings.get("AWS_REGION") or DEFAULT_REGION
    if not _REGION.fullmatch(region):
        raise UsageError(
            f"the region {region!r} has characters that none has; correct AWS_DEFAULT_REGION, "
            "the annotation serving.kserve.io/s3-region, or region in the secret storage-config"
        )
    service = _endpoint(settings)
    virtual = is_true(settings.get("S3_USER_VIRTUAL_BUCKET", ""))
    if not service:
        accelerate = is_true(settings.get("S3_USE_ACCELERATE", ""))
        service = "https://s3-accelerate.amazonaws.com" if accelerate else f"https://s3.{region}.{domain_of(region)}"
        # A dot in a bucket's name is not covered by Amazon's certificates.
        virtual = accelerate or "." not in bucket
    return S3Access(
        bucket=bucket,
        service=service,
        virtual=virtual,
        region=region,
        identity=aws_identity(settings, region),
        trust=trust_of(settings, verify=_verifies(settings.get("S3_VERIFY_SSL", ""))),
        note=note,
    )


def _entry(environment: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The variables that the secret's entry and the service's parameters come to, and a note where they count nothing.

    An entry of another type is not used, as with KServe. An entry without a type is used; KServe ignores it, and then
    sends anonymous requests.
    """
    config, override = (_object(environment, name) for name in ("STORAGE_CONFIG", "STORAGE_OVERRIDE_CONFIG"))
    kind = override.get("type") or config.get("type") or "s3"
    if kind != "s3":
        return {}, f"STORAGE_CONFIG is not used, as its type is {kind}"
    return {**_variables(config), **_variables(override)}, ""


def _object(environment: Mapping[str, str], name: str) -> dict[str, Any]:
    text = environment.get(name, "").strip()
    try:
        document: Any = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        # Not the text: it holds keys.
        raise UsageError(f"{name} is not valid JSON ({error}); correct the key of the secret storage-config") from None
    if not isinstance(document, dict):
        raise UsageError(f"{name} is not a JSON object; correct the key of the secret storage-config")
    return document


def _variables(document: Mapping[str, Any]) -> dict[str, str]:
    values = {
        ENTRY_FIELDS[key]: str(value).strip()
        for key, value in document.items()
        if key in ENTRY_FIELDS and value not in ("", None)
    }
    if "AWS_ACCESS_KEY_ID" not in values:
        return values
    # Keys of one's own are meant to be used, and as they are: not anonymously, nor with a token that is for others.
    return {"awsAnonymousCredential": "", "AWS_SESSION_TOKEN": "", **values}


def _endpoint(settings: Mapping[str, str]) -> str:
    """Empty for Amazon's own."""
    url = settings.get("AWS_ENDPOINT_URL_S3") or settings.get("AWS_ENDPOINT_URL", "")
    if not url and (host := settings.get("S3_ENDPOINT", "")):
        scheme = "http" if settings.get("S3_USE_HTTPS", "").strip().lower() in ("0", "false") else "https"
        url = host if "://" in host else f"{scheme}://{host}"
    if not url:
        return ""
    parts = urlsplit(checked_url("the S3 endpoint", url))
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _verifies(text: str) -> bool:
    return text.strip().lower() not in ("0", "false")
