"""Lists the objects of one kind, watches them from there on, and reports each change, deletions included.

What was deleted while no watch was open is missing in the next list. A list comes first, after the API server has ended
a watch by an error, such as that it fell too far behind (410), and after a lost connection: the API server may have
another state then, restored from a backup. All other watches go on where the last one ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from isvc_operator.api.kinds import ResourceKind
from isvc_operator.errors import OperatorError
from isvc_operator.kube import requests
from isvc_operator.kube.cache import trimmed
from isvc_operator.kube.client import WatchApi
from isvc_operator.kube.errors import KubeError, ObjectNotFound, ResponseTooLarge, error_for
from isvc_operator.kube.heard import Heard
from isvc_operator.kube.nesting import decode
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.kube.silence import Silence
from isvc_operator.limits import WATCH_LINE_BYTES
from isvc_operator.manifests import Manifest

log = logging.getLogger(__name__)

PAGE: Final = 500  # objects of a list in one response
_SMALLER: Final = 10  # times, of a page that was too large
_EXPIRED: Final = 410

_FIRST_BACKOFF: Final = 0.5  # seconds
_LONGEST_BACKOFF: Final = 30.0  # seconds
_CRD_ATTEMPTS: Final = 4  # after it was installed
LATEST: Final = 2**63  # no resource version is newer
_QUIETLY: Final = 2  # failures in a row that are not worth a warning


class OlderState(OperatorError):
    """The API server has an older state than before, as after a restore of etcd: no watch reports what is cached.

    Raised with what shows it.
    """

    def __init__(self, evidence: str) -> None:
        super().__init__(
            f"{evidence} before, as after a restore of etcd; the operator ends, to start without what it has cached"
        )


@dataclass(frozen=True)
class Collection:
    """The objects of a kind in a namespace; no ``namespace`` means the whole cluster. ``fields``: a field selector."""

    kind: ResourceKind
    namespace: str = ""
    fields: str = ""

    @property
    def path(self) -> str:
        """Its path on the API server, with what selects its objects."""
        path = requests.collection_path(self.kind, self.namespace)
        return f"{path}?fieldSelector={self.fields}" if self.fields else path


class WatchHandler(Protocol):
    """Takes what a watch reports."""

    def listed(self, collection: Collection, objects: Sequence[Manifest], version: int) -> None:
        """Take all objects of the collection as they were at a resource version."""
        ...

    def changed(self, change: str, body: Manifest) -> None:
        """Take an object that was ``ADDED``, ``MODIFIED`` or ``DELETED``."""
        ...


@dataclass(frozen=True)
class Watching:
    """What all watches share. ``random`` returns numbers from 0 to 1.

    ``recheck``: in how many seconds to look again for a kind whose CRD is not installed, without word of it.
    ``kept``: what is kept of each object of a list, if anything.
    """

    api: WatchApi
    heard: Heard
    silence: Silence
    random: Callable[[], float]
    recheck: float | None = None
    kept: Callable[[Manifest], Manifest | None] = trimmed


class Watch:
    """Follows a collection. ``known`` is set when its objects were listed, or when its CRD is not installed."""

    def __init__(self, watching: Watching, collection: Collection, handler: WatchHandler) -> None:
        self._watching = watching
        self._api = watching.api
        self._collection = collection
        self._handler = handler
        self._version = ""  # that of the last list, event or bookmark; without one the objects have to be listed
        self._installed = asyncio.Event()
        self._newest = 0  # resource version that the API server has told
        self._failures = 0
        self._lost = False  # the connection, since the last list
        self._attempts = 0  # to list the objects of a kind whose CRD was just installed
        self.known = asyncio.Event()
        self.is_missing = False

    def installed(self) -> None:
        """Note that the kind's CRD was installed or has changed."""
        self._attempts = _CRD_ATTEMPTS
        self._installed.set()

    async def run(self) -> None:
        """Follow the collection until cancelled; raises OlderState."""
        while True:
            try:
                if not self._version or self._lost:
                    self._installed.clear()
                    await self._list()
                await self._follow()
            except ObjectNotFound:
                await self._wait_for_crd()
            except KubeError as error:
                await self._back_off(error)
            finally:
                self._watching.heard.ended(self._collection.path)

    async def _list(self) -> None:
        collection, limit = self._collection, PAGE
        names = {"apiVersion": collection.kind.api_version, "kind": collection.kind.name}  # which items lack
        found: list[Manifest] = []
        page = ""
        while True:
            request = requests.list_objects(
                collection.kind, collection.namespace, page=page, limit=limit, fields=collection.fields
            )
            try:
                response = decode(await self._api.send(request))
            except ResponseTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // _SMALLER)
                continue
            found += filter(None, (self._watching.kept({**item, **names}) for item in response["items"] or ()))
            if not (page := response["metadata"].get("continue", "")):
                break
        version = response["metadata"]["resourceVersion"]
        if int(version) < self._newest:
            raise OlderState(f"{collection.path} is at resource version {version} and was at {self._newest}")
        self._handler.listed(collection, found, int(version))
        self._note(version)
        self._lost = self.is_missing = False
        self._watching.heard.listed(collection.path)
        self.known.set()

    async def _follow(self) -> None:
        collection, heard = self._collection, self._watching.heard
        request = requests.watch_objects(collection.kind, collection.namespace, self._version, collection.fields)
        async with self._watching.silence.bounded() as watch, self._stream(request) as parts:
            heard.opened(collection.path)
            log.debug("watching %s from %s on", collection.path, self._version)
            async for lines in _lines(parts):
                watch.heard()
                heard.heard(collection.path)
                self._failures = 0
                for line in lines:
                    self._take(decode(line))
        if not watch.has_spoken:
            raise KubeError(0, "the API server ended the watch without a word")

    @asynccontextmanager
    async def _stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open the watch, and note if its connection is lost."""
        try:
            async with self._api.stream(request) as parts:
                yield parts
        except KubeError as error:
            self._lost = self._lost or error.status == 0
            raise

    def _take(self, event: Any) -> None:
        body = event["object"]
        match event["type"]:
            case "ERROR":
                self._version = ""
                raise error_for(body.get("code", 0), json.dumps(body))
            case "BOOKMARK":
                pass
            case change:
                kind = self._collection.kind
                self._handler.changed(change, {**body, "apiVersion": kind.api_version, "kind": kind.name})
        self._note(body["metadata"]["resourceVersion"])

    def _note(self, version: str) -> None:
        self._version, self._newest = version, max(self._newest, int(version))

    async def _wait_for_crd(self) -> None:
        """Wait until the CRD may be there; it is served a moment after the API server says that it is installed."""
        collection = self._collection
        self._version = ""
        if not self.is_missing:
            optional = collection.kind.optional
            log.log(logging.INFO if optional else logging.WARNING, "%s is not there to watch", collection.path)
            self.is_missing = True
            self._handler.listed(collection, (), LATEST)
            self._watching.heard.forget(collection.path)
        self.known.set()
        recheck = self._watching.recheck
        if self._attempts:
            recheck = _FIRST_BACKOFF * 2.0 ** (_CRD_ATTEMPTS - self._attempts)
            self._attempts -= 1
        with suppress(TimeoutError):
            async with asyncio.timeout(recheck):
                await self._installed.wait()

    async def _back_off(self, error: KubeError) -> None:
        if error.status == _EXPIRED:
            self._version = ""
        self._failures += 1
        if error.status == _EXPIRED and self._failures == 1:
            log.info("the watch of %s fell too far behind, so that it is listed again", self._collection.path)
            return
        level = logging.INFO if self._failures <= _QUIETLY else logging.WARNING
        log.log(level, "%s cannot be watched, and is tried again: %s", self._collection.path, error)
        await asyncio.sleep(max(self._backoff(), error.retry_after or 0))

    def _backoff(self) -> float:
        longest = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2.0 ** min(self._failures - 1, 10))
        return longest * (0.5 + self._watching.random() / 2)


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield the whole lines of each part; raises KubeError for a line that is too long."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > WATCH_LINE_BYTES:
            raise KubeError(0, f"an event has more than {WATCH_LINE_BYTES} bytes")
        yield [line for line in lines if line]
