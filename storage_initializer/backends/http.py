"""``http(s)://HOST/FILE``: one file of a web server, an archive or not, whatever type it says the content has.

Where neither the server nor the address shows the type of the file, its content does (``kinds``).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from storage_initializer.backends.client import Client, OpenResponse
from storage_initializer.backends.file_name import FileName, file_name
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.redirects import following, quoted
from storage_initializer.backends.trust import Trust, trust_of
from storage_initializer.errors import (
    AccessDeniedError,
    CopyError,
    SourceNotFoundError,
    UnexpectedResponseError,
    UsageError,
)
from storage_initializer.plan import Plan, Transfer
from storage_initializer.sources import Content, SourceFile, check_length, reported_size
from storage_initializer.uri import Uri

# Enough to distinguish a web page, such as one to sign in, from a file.
_START_BYTES = 512
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_PAGE = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.DOTALL | re.IGNORECASE)
_PAGES = (".html", ".htm", ".xhtml")
_ZIPPED = (".gz", ".tgz", ".taz", ".tar")


@dataclass(frozen=True)
class HttpAccess:
    """``headers`` are sent to ``origin`` only: a redirect to another host does not get them."""

    url: str = field(repr=False)
    origin: str
    headers: Mapping[str, str] = field(repr=False)
    trust: Trust

    def __str__(self) -> str:
        return f"with credentials for {self.origin}" if self.headers else "without credentials"


def http_access(uri: Uri, environment: Mapping[str, str]) -> HttpAccess:
    """Return how to request the file: with the headers of KServe's ``HOST-headers``, or the URL's password."""
    user, at, host = uri.authority.rpartition("@")
    name = urlsplit(f"{uri.scheme}://{host}/").hostname
    headers = {"Authorization": f"Basic {b64encode(unquote(user).encode()).decode()}"} if at else {}
    for variable in (f"{name}-headers", f"{host}-headers"):
        headers |= _headers(variable, environment.get(variable, ""))
    return HttpAccess(
        url=f"{uri.scheme}://{host}/{quoted(uri.path.partition('#')[0])}",
        origin=f"{uri.scheme}://{host}",
        headers=headers,
        trust=trust_of(environment),
    )


def open_source(transfer: Transfer, plan: Plan) -> HttpSource:
    access = http_access(transfer.source, plan.environment)
    return HttpSource(access, Client(access.trust, plan.policy, proxies_of(plan.environment)))


class HttpSource:
    def __init__(self, access: HttpAccess, client: Client) -> None:
        # With the query, which may choose the file; it may be a secret, too.
        self.identity = access.url
        self._access = access
        self._client = client

    def describe(self) -> str:
        return f"{self._access}{self._client.describe_route(self._access.url)}"

    def list_files(self) -> Sequence[SourceFile]:
        """Request the first bytes: the response has the length and shows whether ranges are served.

        A HEAD request would be refused by a signed URL that allows GET only.
        """
        with self._request({"Range": f"bytes=0-{_START_BYTES - 1}"}) as body:
            if body.status not in (200, 206, 416):
                self._refuse(body)
            name = file_name(self._access.url, body.headers.get("Content-Disposition", ""))
            self._check_content(name, body)
            size = self._size(body)
            version = _version(body.headers)
            streamed = body.status == 200
        path = PurePosixPath(name.name)
        check_length(path)
        return [SourceFile(path, size, version=version, streamed=streamed, exact=True, untyped=not name.typed)]

    def _size(self, body: OpenResponse) -> int:
        """Return the file's size, 0 for a response in chunks."""
        total = body.headers.get("Content-Range", "").rpartition("/")[2]
        if body.status == 200 and body.chunked:
            return 0
        if body.status == 200 and "Content-Length" in body.headers:
            return reported_size(body.headers["Content-Length"])
        if body.status == 200 or not total.isdecimal():
            raise UnexpectedResponseError(
                f"{self._access.origin} does not report the file's length; serve it otherwise"
            )
        return reported_size(total)

    def _check_content(self, name: FileName, body: OpenResponse) -> None:
        """Check that the response is the file itself: no web page about it, and not compressed for the transfer."""
        suffix = PurePosixPath(name.name).suffix.lower() if name.typed else ""
        coding = body.headers.get("Content-Encoding", "identity").strip().lower()
        if coding != "identity" and suffix not in ("", *_ZIPPED):
            raise UnexpectedResponseError(
                f"{self._access.origin} sends the file compressed (Content-Encoding: {coding[:40]}), which was "
                "not requested; serve it as it is"
            )
        is_page = body.headers.get("Content-Type", "").lower().startswith("text/html")
        if is_page and suffix not in _PAGES and _PAGE.match(body.read_start(_START_BYTES)):
            raise UnexpectedResponseError(
                f"{self._access.origin} responds with a web page (text/html), not with a file; see whether the address "
                "leads to a page for downloads, or wants credentials"
            )

    @contextmanager
    def open(self, file: SourceFile, start: int, stop: int) -> Iterator[Content]:
        """Open a range. The server sends the whole file instead if the file has changed."""
        headers = {"Range": f"bytes={start}-{stop - 1}"} if not file.streamed and file.size else {}
        if headers and file.version:
            headers["If-Range"] = file.version
        with self._request(headers) as body:
            if body.status not in (200, 206):
                self._refuse(body)
            if _version(body.headers) != file.version or (body.status == 200) == bool(headers):
                raise CopyError(f"{file.path} was replaced while it was copied; start again when it is complete")
            body.check_start(start)
            yield body

    def _request(self, headers: Mapping[str, str]) -> AbstractContextManager[OpenResponse]:
        return following(self._client, self._access.url, headers, own=self._access.headers)

    def _refuse(self, body: OpenResponse) -> NoReturn:
        origin = self._access.origin
        if body.status in (401, 403, 407):
            raise AccessDeniedError(
                f"{origin} responds with {body.status} to a request {self._access}; put the headers it requires into a "
                "secret with the keys https-host and headers"
            )
        if body.status in (404, 410):
            raise SourceNotFoundError(f"{origin} has no such file ({body.status}); correct the address")
        raise UnexpectedResponseError(f"{origin} responds with {body.status}; see whether the address is a file's")


def _headers(name: str, text: str) -> dict[str, str]:
    """Parse a JSON object of headers. No message quotes the text: it is a secret."""
    try:
        document = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not valid JSON ({error}); correct the secret") from None
    if not isinstance(document, dict):
        raise UsageError(f"{name} is not a JSON object of headers; correct the secret")
    if not all(_HEADER_NAME.fullmatch(key) for key in document):
        raise UsageError(f"{name} has a name that no header may have; correct the secret")
    return {str(key): str(value).strip() for key, value in document.items()}


def _version(headers: Mapping[str, str]) -> str:
    """Return what identifies the content. A weak etag does not promise the same bytes, so it is not used."""
    etag = headers.get("ETag", "")
    return etag if etag.startswith('"') else headers.get("Last-Modified", "")
