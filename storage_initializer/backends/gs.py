"""``gs://BUCKET[/PATH]``: an object, or all objects below a path, of Google Cloud Storage or its emulators.

Requests go to the JSON API: its listing has each object's generation and checksum, and emulators support it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

from storage_initializer.backends.client import Client, WholeResponse
from storage_initializer.backends.google import GoogleIdentity, TokenProvider, google_identity
from storage_initializer.backends.objects import Listed, choose_files, nearest
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.trust import Trust, trust_of
from storage_initializer.errors import (
    AccessDeniedError,
    CopyError,
    SourceNotFoundError,
    UnexpectedResponseError,
    UsageError,
)
from storage_initializer.limits import MAX_PAGES
from storage_initializer.plan import Plan, Transfer
from storage_initializer.sources import Checksum, Content, SourceFile, reported_size

_ENDPOINT = "https://storage.googleapis.com"
# For the metadata server, which is on the node or nowhere.
_NEAR_S = 2.0


@dataclass(frozen=True)
class GsAccess:
    endpoint: str
    identity: GoogleIdentity
    trust: Trust


def gs_access(environment: Mapping[str, str]) -> GsAccess:
    endpoint = environment.get("STORAGE_EMULATOR_HOST", "").rstrip("/") or _ENDPOINT
    return GsAccess(
        endpoint=endpoint if "://" in endpoint else f"http://{endpoint}",
        identity=google_identity(environment),
        trust=trust_of(environment),
    )


def open_source(transfer: Transfer, plan: Plan) -> GsSource:
    uri = transfer.source
    if not uri.authority:
        raise UsageError("it names no bucket; write gs://BUCKET/PATH")
    access = gs_access(plan.environment)
    policy, proxies = plan.policy, proxies_of(plan.environment)
    tokens = Client(access.trust, replace(policy, connect_s=min(policy.connect_s, _NEAR_S)), proxies)
    credentials = TokenProvider(access.identity, tokens, lambda: datetime.now(UTC))
    client = Client(access.trust, policy, proxies)
    return GsSource(uri.authority, uri.path, access=access, client=client, credentials=credentials)


class GsSource:
    read_back = False

    def __init__(self, bucket: str, path: str, *, access: GsAccess, client: Client, credentials: TokenProvider) -> None:
        self.identity = f"{access.endpoint}/{bucket}/{path}"
        self._bucket = bucket
        self._path = path
        self._endpoint = access.endpoint
        self._objects = f"{access.endpoint}/storage/v1/b/{quote(bucket, safe='')}/o"
        self._client = client
        self._credentials = credentials
        self._keys: dict[PurePosixPath, str] = {}

    def describe(self) -> str:
        self._credentials.headers()
        return f"as {self._credentials}, endpoint {self._endpoint}{self._client.describe_route(self._endpoint)}"

    def list_files(self) -> Sequence[SourceFile]:
        chosen = choose_files(self._path, self._list)
        if not chosen:
            raise SourceNotFoundError(
                f"there is nothing at {self._path or 'its root'} in the bucket {self._bucket}; "
                f"{nearest(self._path, self._names)}"
            )
        self._keys = {file.path: key for key, file in chosen}
        return [file for _, file in chosen]

    @contextmanager
    def open(self, file: SourceFile, start: int, stop: int) -> Iterator[Content]:
        """Open the generation that was listed: it is gone once the object has been replaced."""
        whole = start == 0 and stop == file.size
        query = urlencode({"alt": "media", "generation": file.version})
        url = f"{self._objects}/{quote(self._keys[file.path], safe='')}?{query}"
        headers = {} if whole else {"Range": f"bytes={start}-{stop - 1}"}
        with self._client.request("GET", url, {**self._credentials.headers(), **headers}) as body:
            if body.status != (200 if whole else 206):
                self._refuse(WholeResponse(body.status, body.headers, body.read()), file)
            body.check_start(start)
            yield body

    def checksum(self, file: SourceFile) -> Checksum | None:
        return file.checksum

    def reopen(self) -> None:
        self._client.reopen()
        self._credentials.reopen()

    def close(self) -> None:
        self._client.close()
        self._credentials.close()

    def _list(self, prefix: str) -> Iterator[Listed]:
        query = {"prefix": prefix}
        for _ in range(MAX_PAGES):
            page = self._list_page(query)
            try:
                yield from [_listed(item) for item in page.get("items", ())]
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise self._malformed(error) from None
            if "nextPageToken" not in page:
                return
            query["pageToken"] = page["nextPageToken"]
        raise UnexpectedResponseError(f"{self._endpoint} lists without an end; see its log")

    def _names(self, prefix: str) -> Iterator[str]:
        """Yield the names directly below a prefix: objects, and folders with a slash at the end."""
        page = self._list_page({"prefix": prefix, "delimiter": "/"})
        try:
            yield from (str(name) for name in page.get("prefixes", ()))
            yield from (str(item["name"]) for item in page.get("items", ()))
        except (KeyError, TypeError) as error:
            raise self._malformed(error) from None

    def _list_page(self, query: Mapping[str, str]) -> dict[str, Any]:
        response = self._client.fetch("GET", f"{self._objects}?{urlencode(query)}", self._credentials.headers())
        if response.status != 200:
            self._refuse(response)
        try:
            page = json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise self._malformed(error) from None
        if not isinstance(page, dict):
            raise self._malformed(f"a {type(page).__name__}")
        return page

    def _malformed(self, why: object) -> UnexpectedResponseError:
        return UnexpectedResponseError(
            f"{self._endpoint} does not respond like Google Cloud Storage ({why!s:.200}); correct STORAGE_EMULATOR_HOST"
        )

    def _refuse(self, response: WholeResponse, file: SourceFile | None = None) -> NoReturn:
        what = f"object {self._keys[file.path]}" if file else f"bucket {self._bucket}"
        why = _reason(response.body)
        if response.status in (401, 403):
            raise AccessDeniedError(
                f"the {what} may not be read as {self._credentials} ({response.status}{why}); "
                "give it the role roles/storage.objectViewer there, or use other credentials"
            )
        if response.status == 404 and file:
            raise CopyError(f"the {what} was replaced while it was copied; start again when it is complete")
        if response.status == 404:
            raise SourceNotFoundError(f"there is no {what} at {self._endpoint}; correct its name")
        raise UnexpectedResponseError(
            f"{self._endpoint} responds with {response.status}{why} for the {what}; see its log"
        )


def _listed(item: Mapping[str, Any]) -> Listed:
    """Return a listed object. One that was uploaded compressed is sent unpacked, with an unknown length."""
    unpacked = item.get("contentEncoding") == "gzip"
    return Listed(
        key=str(item["name"]),
        size=0 if unpacked else reported_size(str(item.get("size", 0))),
        version=str(item.get("generation", "")),
        checksum=None if unpacked else _checksum(item),
        streamed=unpacked,
    )


def _checksum(item: Mapping[str, Any]) -> Checksum | None:
    value = base64.b64decode(item.get("crc32c", "")).hex()
    return Checksum("crc32c", value) if value else None


def _reason(body: bytes) -> str:
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        # Downloads respond in plain text.
        message = body[:200].decode(errors="replace")
    text = " ".join(str(message).split())
    return f": {text}" if text else ""
