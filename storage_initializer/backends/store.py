"""The objects of a store as a source. obstore sends the requests: it signs them, and fetches and renews credentials."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from pathlib import PurePosixPath
from threading import Thread
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from obstore.exceptions import BaseError

from storage_initializer.backends.objects import Listed, choose_files, nearest
from storage_initializer.backends.proxies import Proxies
from storage_initializer.backends.store_errors import StorePlace, explained
from storage_initializer.backends.trust import Trust
from storage_initializer.errors import CopyError, InitializerError, ServerError, SourceNotFoundError
from storage_initializer.limits import MAX_FILES, MAX_LISTING_S, MAX_MD5, MAX_REQUEST_S
from storage_initializer.plan import RequestPolicy
from storage_initializer.sources import Checksum, Content, SourceFile

if TYPE_CHECKING:
    from obstore import Bytes, GetOptions, ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

Result = TypeVar("Result")
# ``retry`` tries again, and says so in the log.
ONCE: RetryConfig = {"max_retries": 0}
_ERRORS = (BaseError, FileNotFoundError, ValueError)  # the last one for a time that Python has no date for
# Bytes of an object that come at a time, and may be requested again where a connection breaks.
_PIECE_BYTES = 1 << 20
_BATCH = 1000


@dataclass(frozen=True)
class StoreClient:
    """A store as ``identity`` reads it, whose text is for the log and for messages.

    ``failure`` returns the error of the identity's credentials, where they are not obstore's own.
    """

    store: ObjectStore
    identity: object
    failure: Callable[[], InitializerError | None] = lambda: None


def client_options(url: str, trust: Trust, policy: RequestPolicy, proxies: Proxies) -> ClientConfig:
    options: ClientConfig = {
        "allow_http": url.startswith("http:"),
        "allow_invalid_certificates": not trust.verify,
        "connect_timeout": timedelta(seconds=policy.connect_s),
        "read_timeout": timedelta(seconds=policy.read_s),
        "timeout": timedelta(seconds=MAX_REQUEST_S),
    }
    if (trust.own or url.startswith("https:")) and (bundle := trust.bundle()):
        options["root_certificate"] = bundle
    if proxy := proxies.proxy_for(urlsplit(url)):
        options |= {"proxy_url": proxy.url, "proxy_excludes": proxies.no_proxy}
    return options


class StoreSource:
    def __init__(self, place: StorePlace, path: str, *, connect: Callable[[], StoreClient], note: str) -> None:
        """``connect`` may send requests to find the identity; ``note`` follows it in the log."""
        self.identity = f"{place.url}/{path}"
        self._place = place
        self._path = path
        self._connect = connect
        self._note = note
        self._keys: dict[PurePosixPath, str] = {}

    def describe(self) -> str:
        return f"as {self._client.identity}, {self._note}"

    def list_files(self) -> Sequence[SourceFile]:
        chosen = choose_files(self._path, self._list, self._find)
        if not chosen:
            raise SourceNotFoundError(
                f"there is nothing at {self._path or 'its root'} in the {self._place.noun} {self._place.bucket}; "
                f"{nearest(self._path, self._names)}"
            )
        self._keys = {file.path: key for key, file in chosen}
        return [file for _, file in chosen]

    @contextmanager
    def open(self, file: SourceFile, start: int, stop: int) -> Iterator[Content]:
        """Open a range of the version that was listed: the store refuses if the object has been replaced."""
        key = self._keys[file.path]
        options: GetOptions = {} if stop - start == file.size else {"range": (start, stop)}
        if file.version.startswith('"'):
            # Not a time, where the store has no etags.
            options["if_match"] = file.version
        client = self._client
        try:
            found = _wait_for(lambda: client.store.get_async(key, options=options))
            meta = found.meta
        except _ERRORS as error:
            raise self._explained(error, key) from None
        etag = meta["e_tag"]
        if meta["size"] != file.size or (etag and etag.strip('"') != file.version.strip('"')):
            raise CopyError(f"the object {key} was replaced while it was copied; start again when it is complete")
        pieces = found.stream(_PIECE_BYTES)
        yield _Arriving(lambda: _wait_for(lambda: anext(pieces, b"")), lambda error: self._explained(error, key))

    @cached_property
    def _client(self) -> StoreClient:
        return self._connect()

    def _list(self, folder: str) -> Sequence[Listed]:
        try:
            return _wait_for(lambda: self._collect(folder))
        except TimeoutError:
            raise ServerError(f"{self._place.service} lists without an end; see its log") from None
        except _ERRORS as error:
            raise self._explained(error) from None

    async def _collect(self, folder: str) -> Sequence[Listed]:
        """List a folder, for a bounded time, and not much more than the files that are allowed."""
        found: list[Listed] = []
        async with asyncio.timeout(MAX_LISTING_S):
            async for batch in self._client.store.list(folder or None, chunk_size=_BATCH):
                found += map(self._listed, batch)
                if len(found) > MAX_FILES:
                    break
        return found

    def _find(self, key: str) -> Listed | None:
        try:
            return self._listed(_wait_for(lambda: self._client.store.head_async(key)))
        except FileNotFoundError:
            return None
        except _ERRORS as error:
            raise self._explained(error, key) from None

    def _names(self, folder: str) -> Iterator[str]:
        """Yield the names directly below a folder: objects, and folders with a slash at the end."""
        try:
            found = _wait_for(lambda: self._client.store.list_with_delimiter_async(folder or None))
        except _ERRORS as error:
            raise self._explained(error) from None
        yield from (f"{name}/" for name in found["common_prefixes"])
        yield from (item["path"] for item in found["objects"])

    def _listed(self, item: ObjectMeta) -> Listed:
        etag, size = item["e_tag"] or "", item["size"]
        # Over TLS no byte changes on the way; and what a store has encrypted has an etag that only looks like an MD5.
        checksum = None if self._place.url.startswith("https:") else md5_of(etag, size)
        return Listed(item["path"], size, etag or item["last_modified"].isoformat(), checksum)

    def _explained(self, error: Exception, key: str = "") -> InitializerError:
        client = self._client
        return client.failure() or explained(error, self._place, identity=str(client.identity), key=key)


def md5_of(etag: str, size: int) -> Checksum | None:
    """Return the MD5 of an object that an etag is; None for another etag, and for a large object."""
    digest = etag.strip('"')
    if len(digest) == 24 and digest.endswith("=="):
        # In base64, as Google's emulators have it.
        digest = base64.b64decode(digest).hex()
    is_md5 = len(digest) == 32 and not set(digest) - set("0123456789abcdef")
    return Checksum("md5", digest) if is_md5 and size <= MAX_MD5 else None


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process, in a thread of its own: downloads run in threads, and call it.

    Called without a loop, obstore wakes the calling thread for each 16 KB that TLS deciphers, and half of the time goes
    by with that. Awaited, it gathers a piece in its own threads.
    """
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _wait_for(call: Callable[[], Awaitable[Result]]) -> Result:

    async def awaited() -> Result:
        return await call()

    return asyncio.run_coroutine_threadsafe(awaited(), _loop()).result()


class _Arriving:
    """A range of an object as it comes; ``pieces`` returns the next of it, nothing at the end."""

    def __init__(self, pieces: Callable[[], Bytes | bytes], explain: Callable[[Exception], InitializerError]) -> None:
        self._pieces = pieces
        self._explain = explain
        self._piece = memoryview(b"")

    def readinto(self, buffer: memoryview, /) -> int:
        if not self._piece:
            try:
                self._piece = memoryview(self._pieces())
            except _ERRORS as error:
                raise self._broken(error) from None
        count = min(len(buffer), len(self._piece))
        buffer[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count

    def _broken(self, error: Exception) -> InitializerError:
        if "IncompleteBody" in str(error):
            return ServerError("the store closed the connection before the end of the object; see its log")
        return self._explain(error)
