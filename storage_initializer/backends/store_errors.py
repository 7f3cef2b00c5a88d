"""What an error of obstore means. Its texts are read here alone, and may hold secrets: only known parts are quoted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit
from xml.etree import ElementTree

from obstore.exceptions import InvalidPathError

from storage_initializer.backends.proxies import Proxy
from storage_initializer.errors import (
    AccessDeniedError,
    CertificateError,
    CopyError,
    InitializerError,
    RegionError,
    ServerError,
    SourceNotFoundError,
    UnexpectedResponseError,
    UnreachableError,
    UnsafeSourceError,
)

_URL = re.compile(r"Error performing [A-Z]+ (\S+) in ")
_STATUS = re.compile(r"non-2xx status code: (?P<status>\d{3}) ?(?P<reason>[^:\n]{0,60}): (?P<body>.*)", re.DOTALL)
_WHY = re.compile(r"(?:invalid list response|HTTP error): (.*)", re.IGNORECASE)
_CAUSE = re.compile(r'(?:message|error): "(?:failed to lookup address information: )?([^"]*)"')
_CERTIFICATE = re.compile(r"InvalidCertificate\((?:\s*Other\(\s*OtherError\()?\s*(\w+)")
# Overloaded, restarting, or rate-limited.
_MAY_PASS = (408, 429, 500, 502, 503, 504)
# Some stores send these with status 400.
_BAD_KEYS = ("InvalidAccessKeyId", "ExpiredToken", "InvalidToken", "TokenRefreshRequired")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_HINTS = {
    "InvalidAccessKeyId": "the store does not know this key; correct it in the secret",
    "SignatureDoesNotMatch": "the secret key does not belong to it; correct it in the secret",
    "RequestTimeTooSkewed": "the node's clock is wrong; correct it",
    **dict.fromkeys(_BAD_KEYS[1:], "the session token has expired; renew it"),
}
_OF_REGION = "annotation serving.kserve.io/s3-region, or region in the secret storage-config"
_NO_LOCATION = "without LOCATION"  # of a redirect; for S3, to another region


@dataclass(frozen=True)
class StorePlace:
    """Where the objects are, for messages: a bucket, or a ``noun``, at ``service``; requests are sent below ``url``.

    ``grant`` is what the reader has to be allowed; ``setting`` names the service; ``proxy`` is on the way to it.
    Only S3 has a ``region``.
    """

    kind: str
    bucket: str
    service: str
    url: str
    grant: str
    noun: str = "bucket"
    setting: str = "the endpoint"
    region: str = ""
    proxy: Proxy | None = None

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc


def explained(error: Exception, place: StorePlace, *, identity: str, key: str = "") -> InitializerError:
    """Return the error to raise for one of obstore, in a request for the object ``key``, or else for the bucket."""
    text, _, source = str(error).partition("\n\nDebug source:")
    asked = url[1] if (url := _URL.search(text)) else place.url
    what = f"object {key}" if key else f"{place.noun} {place.bucket}"
    why = _short(found[1].partition(" for url")[0]) if (found := _WHY.search(text)) else ""
    if response := _STATUS.search(text):
        status, reason, body = int(response["status"]), response["reason"].strip(), response["body"]
        if status in _MAY_PASS:
            host = urlsplit(asked).netloc or "the service for credentials"
            return ServerError(f"{host} responds with {status} {reason}; see its log, or send fewer requests")
        if status == 407 and place.proxy:
            return place.proxy.refusal(place.host, f"{status} {reason}")
        if urlsplit(asked).netloc != place.host:
            return AccessDeniedError(
                f"no keys for {identity}: {status} {_code_and_message(body)[1]}; correct the credentials"
            )
        return _refused(status, body, place, what=what, identity=identity)
    if isinstance(error, InvalidPathError):
        return UnsafeSourceError(f"the name of the {what}, or of one in it, cannot be a file's; rename it")
    if "kind: Decode" in source:
        return UnexpectedResponseError(
            f"the response of the credentials' agent is malformed ({why}); correct AWS_CONTAINER_CREDENTIALS_FULL_URI"
        )
    if place.region and _NO_LOCATION in text:
        return RegionError(
            f"the bucket {place.bucket} is in another region than {place.region}, which was requested; "
            f"set its region ({_OF_REGION})"
        )
    if "token file" in text:
        return AccessDeniedError(
            f"the token of {identity} cannot be read; see that the service account's token is mounted"
        )
    if "HttpError" in source:
        return _disconnected(source, urlsplit(asked).netloc or place.host, place.proxy, why=why)
    # A listing that is none, or another part than the requested one.
    said = text if isinstance(error, ValueError) else text.partition(" error: ")[2]
    why = why or ("a redirect without a Location" if _NO_LOCATION in text else "" if url else _short(said))
    return UnexpectedResponseError(
        f"{place.service} does not respond like {place.kind} ({why}); correct {place.setting}"
    )


def _refused(status: int, body: str, place: StorePlace, *, what: str, identity: str) -> InitializerError:
    code, message = _code_and_message(body)
    if place.region and status in (301, 307, 400) and (region := _element(body, "Region")) not in ("", place.region):
        return RegionError(
            f"the bucket {place.bucket} is in the region {region}, but {place.region} was requested; "
            f"set the region {region} ({_OF_REGION})"
        )
    if status == 412:
        return CopyError(f"the {what} was replaced while it was copied; start again when it is complete")
    if code in _NO_BUCKET:
        return SourceNotFoundError(
            f"there is no {place.noun} {place.bucket} at {place.service}; correct its name or {place.setting}"
        )
    if status == 404:
        return SourceNotFoundError(f"the {what} is not at {place.service}; correct the path or {place.setting}")
    if status in (401, 403) or code in _BAD_KEYS:
        hint = f": {_HINTS[code]}" if code in _HINTS else f" ({message or status}); {place.grant}"
        return AccessDeniedError(f"the {what} may not be read as {identity}{hint}")
    why = " ".join(filter(None, (str(status), code, message)))
    return UnexpectedResponseError(f"{place.service} responds with {why} for the {what}; check {place.setting}")


def _disconnected(source: str, host: str, proxy: Proxy | None, *, why: str) -> InitializerError:
    """Return the error for a request without a response; ``source`` is Rust's own account of it."""
    cause = found[1] if (found := _CAUSE.search(source)) else why
    if proxy and "ProxyAuthRequired" in source:
        return proxy.refusal(host, "407 Proxy Authentication Required")
    if proxy and ('"tcp connect error"' in source or "TunnelUnsuccessful" in source):
        return proxy.refusal(host, cause)
    if certificate := _CERTIFICATE.search(source):
        return _untrusted(host, certificate[1])
    if '"dns error"' in source:
        return UnreachableError.unknown_name(host, cause)
    if "kind: Timeout" in source or "TimedOut" in source:
        return UnreachableError(f"{host} does not respond in time; check whether a network policy blocks it")
    if "kind: ConnectionRefused" in source:
        return UnreachableError(f"{host} refuses connections; correct the endpoint and port, or start it")
    if "kind: InvalidData" in source:
        return UnreachableError(f"{host} does not speak TLS ({why}); use http:// if it is meant so")
    return UnreachableError(f"the connection to {host} broke ({cause}); see its log")


def _untrusted(host: str, why: str) -> CertificateError:
    if why.startswith("NotValidForName"):
        return CertificateError(f"the certificate of {host} is another host's; use the name it was made for")
    if why == "CaUsedAsEndEntity":
        return CertificateError(
            f"the certificate of {host} is an authority's own, which no server may have; sign one for it (CA:FALSE)"
        )
    return CertificateError.untrusted(host, why)


def _code_and_message(body: str) -> tuple[str, str]:
    """Return what an XML document says, or the beginning of another text."""
    code = _element(body, "Code")
    # Azure adds lines with numbers and times.
    message = _element(body, "Message").strip().partition("\nRequestId:")[0] if code else body
    return code, _short(message).rstrip(".")


def _element(body: str, name: str) -> str:
    try:
        return ElementTree.fromstring(body).findtext(f".//{{*}}{name}") or ""  # noqa: S314 - expat bounds entities
    except (ElementTree.ParseError, ValueError):
        return ""


def _short(text: str) -> str:
    return " ".join(text[:1000].split())[:300]
