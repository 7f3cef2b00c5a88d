"""``http(s)://HOST/FILE``: one file of a web server, an archive or not, whatever type it says the content has."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import PurePosixPath
from typing import NoReturn
from urllib.parse import quote, unquote, urljoin, urlsplit

from storage_initializer.backends import Checksum, Content, SourceFile
from storage_initializer.backends.client import Body, Client
from storage_initializer.backends.proxies import proxies_of
from storage_initializer.backends.trust import Trust, ca_bundle
from storage_initializer.errors import (
    AccessDeniedError,
    CopyError,
    SourceNotFoundError,
    UnexpectedAnswerError,
    UsageError,
)
from storage_initializer.plan import Plan, Transfer
from storage_initializer.uri import Uri

_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class HttpAccess:
    """``headers`` are for ``origin`` alone: whoever it sends us on to must not get them."""

    url: str = field(repr=False)
    origin: str
    headers: Mapping[str, str] = field(repr=False)
    trust: Trust

    def __str__(self) -> str:
        names = ", ".join(sorted(self.headers))
        return f"with the headers {names} for {self.origin}" if names else "without credentials"


def http_access(uri: Uri, environment: Mapping[str, str]) -> HttpAccess:
    """Headers come from ``HOST-headers``, as KServe's secrets for a host name them, or a password from the address."""
    user, at, host = uri.authority.rpartition("@")
    parts = urlsplit(f"{uri.scheme}://{host}/")
    if not parts.hostname:
        raise UsageError(f"it names no host; write {uri.scheme}://HOST/FILE")
    headers = {"Authorization": f"Basic {b64encode(unquote(user).encode()).decode()}"} if at else {}
    for name in (f"{parts.hostname}-headers", f"{host}-headers"):
        headers |= _headers(name, environment.get(name, ""))
    # A blank or an umlaut as people write them; what is quoted already stays.
    target = quote(uri.path.partition("#")[0], safe="/%:@!$&'()*+,;=~?")
    return HttpAccess(
        url=f"{uri.scheme}://{host}/{target}",
        origin=f"{uri.scheme}://{host}",
        headers=headers,
        trust=Trust(ca_file=ca_bundle(environment)),
    )


def open_source(transfer: Transfer, plan: Plan) -> HttpSource:
    access = http_access(transfer.source, plan.environment)
    return HttpSource(access, Client(access.trust, plan.patience, proxies_of(plan.environment)))


class HttpSource:
    read_back = False

    def __init__(self, access: HttpAccess, client: Client) -> None:
        # With the query, which may choose the file; it may be a secret, too.
        self.identity = access.url
        self._access = access
        self._client = client

    def describe(self) -> str:
        return f"{self._access}{self._client.way_to(self._access.url)}"

    def list_files(self) -> Sequence[SourceFile]:
        """Asked for its first byte: that tells the length and whether ranges are served, also where only GET is
        allowed, as of an address that is signed."""
        with self._request({"Range": "bytes=0-0"}) as body:
            headers = body.headers
            if body.status not in (200, 206, 416):
                self._refuse(body)
            name = _name(headers, self._access.url)
            total = headers.get("Content-Range", "").rpartition("/")[2]
            if body.status != 200 and total.isdecimal():
                return [SourceFile(name, int(total), version=_version(headers))]
            if body.status == 200 and (body.chunked or "Content-Length" in headers):
                size = int(headers.get("Content-Length", "0"))
                return [SourceFile(name, size, version=_version(headers), streamed=True)]
        raise UnexpectedAnswerError(f"{self._access.origin} does not tell how long the file is; serve it otherwise")

    @contextmanager
    def open(self, file: SourceFile, start: int, stop: int) -> Iterator[Content]:
        """The server sends the whole file, not a range, if it is another one by now."""
        headers = {"Range": f"bytes={start}-{stop - 1}"} if not file.streamed and file.size else {}
        if headers and file.version:
            headers["If-Range"] = file.version
        with self._request(headers) as body:
            if body.status not in (200, 206):
                self._refuse(body)
            if _version(body.headers) != file.version or (body.status == 200) == bool(headers):
                raise CopyError(f"{file.path} was replaced while it was copied; start again when it is complete")
            yield body

    def checksum(self, file: SourceFile) -> Checksum | None:
        """A web server tells none."""
        return file.checksum

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _request(self, headers: Mapping[str, str]) -> Iterator[Body]:
        url = self._access.url
        for _ in range(_MOST_REDIRECTS):
            own = self._access.headers if _origin(url) == self._access.origin else {}
            with self._client.request("GET", url, {**own, **headers}) as body:
                if body.status not in _REDIRECTS:
                    yield body
                    return
                url = urljoin(url, body.headers.get("Location", ""))
            if urlsplit(url).scheme not in ("http", "https"):
                break
        raise UnexpectedAnswerError(f"{self._access.origin} redirects to nowhere; give the address of the file itself")

    def _refuse(self, body: Body) -> NoReturn:
        origin = self._access.origin
        if body.status in (401, 403, 407):
            raise AccessDeniedError(
                f"{origin} answers {body.status} to a request {self._access}; put the headers it wants into a secret "
                "with the keys https-host and headers"
            )
        if body.status in (404, 410):
            raise SourceNotFoundError(f"{origin} has no such file ({body.status}); correct the address")
        raise UnexpectedAnswerError(f"{origin} answers {body.status}; see whether the address is a file's")


def _headers(name: str, text: str) -> dict[str, str]:
    """Never with the text in a message: it is a secret."""
    try:
        document = json.loads(text or "{}")
    except ValueError as error:
        raise UsageError(f"{name} is not valid JSON ({error}); correct the secret") from None
    if not isinstance(document, dict):
        raise UsageError(f"{name} is not a JSON object of headers; correct the secret")
    return {str(key): str(value) for key, value in document.items()}


def _name(headers: Mapping[str, str], url: str) -> PurePosixPath:
    """As a browser would save it."""
    message = Message()
    message["Content-Disposition"] = headers.get("Content-Disposition", "")
    name = message.get_filename() or unquote(urlsplit(url).path)
    name = PurePosixPath(name.replace("\\", "/")).name
    if not name or name == ".." or "\0" in name:
        raise UsageError("the address has no file name; give the address of a file")
    return PurePosixPath(name)


def _version(headers: Mapping[str, str]) -> str:
    """A weak etag does not promise the same bytes, so it is no use for ranges."""
    etag = headers.get("ETag", "")
    return etag if etag.startswith('"') else headers.get("Last-Modified", "")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
