"""``s3://BUCKET[/PATH]``: an object, or all objects below a path, of Amazon S3 or a compatible store."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NoReturn
from xml.etree import ElementTree

from storage_initializer.backends.aws import KeyProvider, policy_for
from storage_initializer.backends.client import Client, OpenResponse, WholeResponse
from storage_initializer.backends.objects import Listed, choose_files, nearest
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.s3_access import S3Access, s3_access
from storage_initializer.backends.sigv4 import canonical_query, sign
from storage_initializer.checksums import ALGORITHMS
from storage_initializer.errors import (
    AccessDeniedError,
    CopyError,
    RegionError,
    SourceNotFoundError,
    UnexpectedResponseError,
    UsageError,
)
from storage_initializer.limits import MAX_MD5, MAX_PAGES
from storage_initializer.plan import Plan, Transfer
from storage_initializer.sources import Checksum, Content, SourceFile, reported_size

# Some stores send these with status 400.
_BAD_KEYS = ("InvalidAccessKeyId", "ExpiredToken", "InvalidToken", "TokenRefreshRequired")
# With these, an etag is not the MD5 of the content.
_OPAQUE_ETAGS = ("aws:kms", "aws:kms:dsse")


def open_source(transfer: Transfer, plan: Plan) -> S3Source:
    uri = transfer.source
    if not uri.authority:
        raise UsageError("it names no bucket; write s3://BUCKET/PATH")
    access = s3_access(uri.authority, plan.environment)
    proxies = proxies_of(plan.environment)
    agents = Client(access.trust, policy_for(access.identity, plan.policy), proxies)
    credentials = KeyProvider(access.identity, agents, lambda: datetime.now(UTC))
    client = Client(access.trust, plan.policy, proxies)
    return S3Source(uri.authority, uri.path, access=access, client=client, credentials=credentials)


class S3Source:
    read_back = False

    def __init__(self, bucket: str, path: str, *, access: S3Access, client: Client, credentials: KeyProvider) -> None:
        self.identity = f"{access.bucket_url}/{path}"
        self._bucket = bucket
        self._path = path
        self._access = access
        self._client = client
        self._credentials = credentials
        self._keys: dict[PurePosixPath, str] = {}
        self._checksums: dict[PurePosixPath, Checksum | None] = {}

    def describe(self) -> str:
        self._credentials.keys()
        return f"as {self._credentials}, {self._access}{self._client.describe_route(self._access.bucket_url)}"

    def list_files(self) -> Sequence[SourceFile]:
        chosen = choose_files(self._path, self._list)
        if not chosen:
            raise SourceNotFoundError(
                f"there is nothing at {self._path or 'its root'} in the bucket {self._bucket}; {self._suggestion()}"
            )
        self._keys = {file.path: key for key, file in chosen}
        return [file for _, file in chosen]

    @contextmanager
    def open(self, file: SourceFile, start: int, stop: int) -> Iterator[Content]:
        whole = stop - start == file.size
        headers = {"x-amz-checksum-mode": "ENABLED"} if whole else {"Range": f"bytes={start}-{stop - 1}"}
        with self._request("GET", file, headers) as body:
            if body.status != (200 if whole else 206):
                self._refuse(WholeResponse(body.status, body.headers, body.read()), file)
            body.check_start(start)
            if whole:
                self._checksums[file.path] = reported_checksum(file, body.headers)
            yield body

    def checksum(self, file: SourceFile) -> Checksum | None:
        """Return the checksum that came with the whole object; for one that came in ranges, request it."""
        if file.path not in self._checksums:
            with self._request("HEAD", file, {"x-amz-checksum-mode": "ENABLED"}) as body:
                if body.status == 412:
                    self._refuse(WholeResponse(body.status, body.headers, b""), file)
                # Permission to read an object does not include permission to read its attributes.
                self._checksums[file.path] = reported_checksum(file, body.headers) if body.status == 200 else None
        return self._checksums[file.path]

    def reopen(self) -> None:
        self._client.reopen()
        self._credentials.reopen()

    def close(self) -> None:
        self._client.close()
        self._credentials.close()

    @contextmanager
    def _request(self, method: str, file: SourceFile, headers: Mapping[str, str]) -> Iterator[OpenResponse]:
        """Request the version that was listed: the store refuses if the object has been replaced."""
        # A time, where the store has no etags, is no precondition.
        condition = {"If-Match": file.version} if file.version.startswith('"') else {}
        url = self._access.url(self._keys[file.path])
        with self._client.request(method, url, self._signed(method, url, {**headers, **condition})) as body:
            yield body

    def _signed(self, method: str, url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
        keys = self._credentials.keys()
        if keys is None:
            return headers
        return sign(method, url, headers, keys=keys, region=self._access.region, now=datetime.now(UTC))

    def _list(self, prefix: str) -> Iterator[Listed]:
        """Yield objects in the order of their names; each page is requested when it is needed."""
        query = {"list-type": "2", "prefix": prefix}
        for _ in range(MAX_PAGES):
            page = self._list_page(query)
            yield from map(_listed, page.iterfind("{*}Contents"))
            token = page.findtext("{*}NextContinuationToken")
            if not token:
                return
            query["continuation-token"] = token
        raise UnexpectedResponseError(f"{self._access.service} lists without an end; see its log")

    def _names(self, prefix: str) -> Iterator[str]:
        """Yield the names directly below a prefix: objects, and folders with a slash at the end."""
        page = self._list_page({"list-type": "2", "prefix": prefix, "delimiter": "/"})
        for name in (*page.iterfind("{*}CommonPrefixes/{*}Prefix"), *page.iterfind("{*}Contents/{*}Key")):
            yield name.text or ""

    def _list_page(self, query: Mapping[str, str]) -> ElementTree.Element:
        url = f"{self._access.bucket_url}?{canonical_query(query)}"
        response = self._client.fetch("GET", url, self._signed("GET", url, {}))
        if response.status != 200:
            self._refuse(response)
        try:
            return ElementTree.fromstring(response.body)  # noqa: S314 - expat bounds entities
        except ElementTree.ParseError as error:
            raise UnexpectedResponseError(
                f"{self._access.service} does not respond like S3 ({error}); correct the endpoint"
            ) from None

    def _suggestion(self) -> str:
        return nearest(self._path, self._names)

    def _refuse(self, response: WholeResponse, file: SourceFile | None = None) -> NoReturn:
        """Raise the error for a response that is not the expected one."""
        what = f"object {self._keys[file.path]}" if file else f"bucket {self._bucket}"
        code, message = _reason(response.body)
        if region := _region(response, self._access.region):
            raise RegionError(
                f"the bucket {self._bucket} is in the region {region}, but {self._access.region} was requested; "
                f"set the region {region} (annotation serving.kserve.io/s3-region)"
            )
        service = self._access.service
        if response.status == 412:
            raise CopyError(f"the {what} was replaced while it was copied; start again when it is complete")
        if code == "NoSuchBucket":
            raise SourceNotFoundError(
                f"there is no bucket {self._bucket} at {service}; correct its name or the endpoint"
            )
        if response.status == 404:
            raise SourceNotFoundError(f"the {what} is not at {service}; correct the path or the endpoint")
        if response.status in (401, 403) or code in _BAD_KEYS:
            raise AccessDeniedError(f"the {what} may not be read as {self._credentials}{_denied(code, message)}")
        why = " ".join(filter(None, (str(response.status), code, message)))
        raise UnexpectedResponseError(f"{service} responds with {why} for the {what}; check endpoint and region")


def _listed(entry: ElementTree.Element) -> Listed:
    version = entry.findtext("{*}ETag") or entry.findtext("{*}LastModified") or ""
    return Listed(entry.findtext("{*}Key") or "", reported_size(entry.findtext("{*}Size") or "0"), version)


def reported_checksum(file: SourceFile, headers: Mapping[str, str]) -> Checksum | None:
    """Return the whole object's checksum, or None: one over its parts cannot be checked without knowing the parts."""
    etag = file.version.strip('"')
    # What was uploaded in parts has a checksum of the whole only where the store says so.
    kind = headers.get("x-amz-checksum-type") or ("COMPOSITE" if "-" in etag else "FULL_OBJECT")
    for algorithm in ALGORITHMS:
        value = headers.get(f"x-amz-checksum-{algorithm}", "")
        if value and "-" not in value and kind == "FULL_OBJECT":
            return Checksum(algorithm, _hexadecimal(value))
    plain = headers.get("x-amz-server-side-encryption") not in _OPAQUE_ETAGS
    plain = plain and "x-amz-server-side-encryption-customer-algorithm" not in headers
    is_md5 = len(etag) == 32 and not set(etag) - set("0123456789abcdef")
    return Checksum("md5", etag) if plain and is_md5 and file.size <= MAX_MD5 else None


def _hexadecimal(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).hex()
    except ValueError:
        raise UnexpectedResponseError(
            f"the store reports the checksum {value!r}, which is no base64; see its log"
        ) from None


def _reason(body: bytes) -> tuple[str, str]:
    try:
        error = ElementTree.fromstring(body)  # noqa: S314 - expat bounds entities
    except ElementTree.ParseError:
        return "", ""
    return error.findtext("{*}Code") or "", error.findtext("{*}Message") or ""


def _region(response: WholeResponse, requested: str) -> str:
    """Return the bucket's region where it is not the requested one. Amazon sends a header, others the body."""
    try:
        named = ElementTree.fromstring(response.body).findtext("{*}Region") or ""  # noqa: S314 - expat bounds entities
    except ElementTree.ParseError:
        named = ""
    region = response.headers.get("x-amz-bucket-region") or named
    return region if region != requested and response.status in (301, 307, 400) else ""


def _denied(code: str, message: str) -> str:
    match code:
        case "InvalidAccessKeyId":
            return ": the store does not know this key; correct it in the secret"
        case "SignatureDoesNotMatch":
            return ": the secret key does not belong to it; correct it in the secret"
        case "RequestTimeTooSkewed":
            return ": the node's clock is wrong; correct it"
        case "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired":
            return ": the session token has expired; renew it"
    why = f" ({message.rstrip('.')})" if message else ""
    return f"{why}; allow it s3:GetObject and s3:ListBucket there, or use other credentials"
