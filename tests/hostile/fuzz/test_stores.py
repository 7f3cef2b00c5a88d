"""Stores whose responses have anything done to them: a whole model, or the exit code of an error that is foreseen."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage_initializer.cli import main
from storage_initializer.schemes import SCHEMES
from tests.hostile.storage.stores import ONCE
from tests.support.fuzz import damaged
from tests.support.object_stores.proxy import Proxy, Raw, Request, proxy

SEEDS = st.integers(0, 2**64)
UNFORESEEN = 1  # the exit code of an error that has none of its own
CONTENT = b"weights"
_TIME, _DATE = "2026-01-01T00:00:00Z", "Thu, 01 Jan 2026 00:00:00 GMT"
_S3 = (
    "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>m/a.pt</Key><Size>7</Size><ETag>e</ETag>"
    f"<LastModified>{_TIME}</LastModified></Contents></ListBucketResult>"
)
_AZURE = (
    '<?xml version="1.0"?><EnumerationResults><Blobs><Blob><Name>m/a.pt</Name><Properties><Last-Modified>'
    f"{_DATE}</Last-Modified><Content-Length>7</Content-Length><Content-Type>x</Content-Type><Etag>e</Etag></Properties></Blob></Blobs><NextMarker/>"
    "</EnumerationResults>"
)
# Of each backend: the URI, the environment that leads to the store, and how a listing looks.
STORES = {
    "s3": ("s3://models/m", {"AWS_ENDPOINT_URL": "{url}", "awsAnonymousCredential": "true"}, _S3),
    "gs": ("gs://models/m", {"STORAGE_EMULATOR_HOST": "{url}"}, _S3),
    "azure": ("abfs://models@account.dfs.core.windows.net/m", {"AZURE_STORAGE_ENDPOINT": "{url}"}, _AZURE),
    "http": ("{url}/m/a.pt", {}, ""),
}
# The hub's own library reads its responses.
BACKENDS = sorted({scheme.backend for scheme in SCHEMES.values() if scheme.is_remote} - {"hf"})
_TOKENS = (
    b"\r\n", b"\r\n\r\n", b"HTTP/1.1 500 x\r\n", b"HTTP/1.1 206 x\r\n",
    b"HTTP/1.1 301 x\r\nLocation: http://127.0.0.1:1/\r\n",
    b"Content-Length: 99999999999\r\n", b"Content-Length: -1\r\n", b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: gzip\r\n", b"Content-Range: bytes 5-3/1\r\n", b"ETag: \r\n", b"<Key>../../x</Key>",
    b"<Key></Key>", b"<Key>a&#10;b</Key>",
    b"<Size>-1</Size>", b"<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>",
    b"&lt;!ENTITY", b"<!DOCTYPE x [",
    b"null", b"[", b"{", b"1e999", b'"nextPageToken": "x",', b"\xff", b"\x00", b"\x1b[2J", b"</Contents>",
    b"</Blob>", b"NaN",
    b"Content-MD5: AAAA\r\n", b"x-goog-hash: crc32c=AAAAAA==\r\n",
    b"Content-Disposition: attachment; filename=../../x\r\n",
)  # fmt: skip


class Store:
    """It damages one of its responses to a run, or none: the seed says which and how."""

    def __init__(self) -> None:
        self.begin(0, "")

    def begin(self, seed: int, listing: str) -> None:
        self._seed, self._listing, self._before = seed, listing, seed % 5

    def decide(self, request: Request) -> Raw:
        is_listing = any(word in request.target for word in ("list-type", "comp=list"))
        is_folder = self._listing and not is_listing and "a.pt" not in unquote(request.target)
        body = self._listing.encode() if is_listing else b"" if is_folder or request.method == "HEAD" else CONTENT
        head = f"HTTP/1.1 {404 if is_folder else 200} x\r\nETag: e\r\nLast-Modified: {_DATE}\r\n"
        length = len(CONTENT) if request.method == "HEAD" else len(body)
        whole = f"{head}Content-Length: {length}\r\nConnection: close\r\n\r\n".encode() + body
        self._before -= 1
        return Raw(whole if self._before >= 0 else next(damaged([whole], 1, self._seed, _TOKENS)))


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[Store, Proxy]]:
    answering = Store()
    with proxy(None, answering.decide) as server:
        yield answering, server


@given(SEEDS, st.sampled_from(BACKENDS))
@example(seed=6327, backend="azure")  # a time in the year 202026
def test_a_response_is_a_model_or_an_error_that_is_foreseen(
    store: tuple[Store, Proxy], seed: int, backend: str
) -> None:
    answering, server = store
    uri, environment, listing = STORES[backend]
    answering.begin(seed, listing)
    with tempfile.TemporaryDirectory() as name:
        models, log = Path(name, "models"), Path(name, "termination-log")
        log.touch()
        found = {key: value.format(url=server.url) for key, value in environment.items()}
        code = main([uri.format(url=server.url), str(models)], {"TERMINATION_LOG": str(log), **ONCE, **found})
        reason = log.read_text(encoding="utf-8")

        assert code != UNFORESEEN, reason
        assert "\n" not in reason
        assert sorted(path.name for path in Path(name).iterdir()) in (
            ["models", "termination-log"],
            ["termination-log"],
        )
        files = [path for path in models.rglob("*") if path.is_file() and ".storage-initializer" not in str(path)]
        assert (code == 0) >= bool(files)
    logging.getLogger("storage_initializer").handlers.clear()
