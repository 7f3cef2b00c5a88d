"""What kopf takes for its HTTP session: its lists and watches, by our client, with what kopf's own leave out.

kopf lists a kind, watches it from there on, and calls a handler for each change. It does not tell

- what was deleted meanwhile, when it lists a kind again: each list is given to the handler as a whole, and kopf gets
  its version alone. So the cache is full before the first reconcile, too
- errors from the end of the operator: one that a list or a watch meets is tried again, here, with a growing pause.
  What kopf can do about a watch that has failed, whatever the reason, is to list again, as after 410 (expired)
- objects that no decoder can read, or that are too large, from others: they are bounded here
- when the CRD of a kind comes: the watch of CRDs ends the wait for it. kopf discovers kinds by requests, which are
  answered from our table; so it watches all of them, and one whose CRD is missing is waited for

kopf reads responses in ``kopf._cogs.clients``; ``tests/contract/test_kopf.py`` names what of it this relies on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, Self, cast
from urllib.parse import parse_qsl, urlsplit
from weakref import WeakSet

import aiohttp
import kopf
from pydantic_core import to_json

from isvc_operator.api.kinds import KINDS, ResourceKind, Role, kind_named
from isvc_operator.kube.errors import KubeError, NotPermitted, ObjectNotFound, ResponseTooLarge, error_for
from isvc_operator.kube.informer.cache import version_of
from isvc_operator.kube.informer.kopf_settings import discovered
from isvc_operator.kube.informer.watching import LATEST, Collection, Watch, WatchHandler, Watching
from isvc_operator.kube.requests import ApiRequest, decode
from isvc_operator.limits import LIST_BYTES, WATCH_LINE_BYTES
from isvc_operator.manifests import Manifest, name_of

log = logging.getLogger(__name__)

_SERVER: Final = "https://kubernetes"  # kopf puts it before each path; the client knows the real one
_PAGE: Final = 500  # objects of a list in one response
_BRACKETS: Final = 128  # bytes of memory that an object or a list takes, with some of its fields
_SMALLER: Final = 10  # times, of a page that was too large
_EXPIRED: Final = 410
_IS_EXPIRED: Final = b'{"type":"ERROR","object":{"code":410}}\n'

_FIRST_BACKOFF: Final = 0.5  # seconds
_LONGEST_BACKOFF: Final = 10.0  # seconds
_CRD_ATTEMPTS: Final = 4  # after it was installed
_QUIETLY: Final = 2  # failures in a row that are not worth a warning

_KINDS: Final = {(kind.api_path, kind.plural): kind for kind in KINDS}
_CRD, _NAMESPACE = kind_named("CustomResourceDefinition"), kind_named("Namespace")


class WatchSession:
    """The session; ``handler`` takes the lists. What kopf reports of its watches is the caller's to give to it."""

    def __init__(self, watching: Watching, handler: WatchHandler) -> None:
        self._watching = watching
        self._handler = handler
        self._watches: dict[str, Watch] = {}  # by path
        self._namespaces: set[str] = set()
        self._open = WeakSet[AsyncGenerator[bytes, None]]()  # watches that have not ended
        self._untold: list[bytes] = []  # events of namespaces that a list has shown: kopf passes over what it lists
        self.namespaces_known = asyncio.Event()
        self.headers = {"User-Agent": ""}  # the client's own is sent
        self.closed = False

    @property
    def login(self) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=_SERVER, aiohttp_session=cast(aiohttp.ClientSession, self))

    async def close(self) -> None:
        """End the watches that kopf has left open when it ended. The client closes itself."""
        for events in [*self._open]:
            await events.aclose()

    def watch_of(self, collection: Collection) -> Watch:
        if (path := collection.path) not in self._watches:
            self._watches[path] = Watch(collection, self._watching.clock)
        return self._watches[path]

    def namespaces(self) -> frozenset[str]:
        """Return those that exist, once they are known."""
        return frozenset(self._namespaces)

    def is_complete(self, namespace: str) -> bool:
        """Whether all that is watched in a namespace has been listed."""
        return all(watch.is_listed or watch.is_missing for watch in self._watches_in(namespace))

    async def request(self, method: str, url: str, **_: Any) -> KopfResponse:
        """Return the response to a request of kopf: to list, to watch, or to discover kinds."""
        if method.upper() != "GET":
            raise NotImplementedError(f"kopf wants to {method} {url}; it is set up to write nothing")
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        collection = _collection(parts.path, query)
        if collection is None:
            return KopfResponse(discovered(parts.path))
        if collection.kind not in self._watching.kinds:  # there is nothing, and nothing comes
            return KopfResponse({"metadata": {"resourceVersion": "0"}, "items": []})
        watch = self.watch_of(collection)
        is_list = "watch" not in query
        request = ApiRequest(
            "GET", parts.path, tuple(query.items()), accept=_accepted(collection.kind, is_list=is_list)
        )
        if not is_list:
            events = self._events(watch, request)
            self._open.add(events)
            return KopfResponse(None, events)
        try:
            return KopfResponse(await self._list(watch, request))
        except Exception as error:
            if self._watching.fail is None:
                raise
            self._watching.fail(error)
            await asyncio.Event().wait()  # kopf is stopped
            raise

    async def _list(self, watch: Watch, request: ApiRequest) -> Manifest:
        """Give the handler all objects of a collection; return a list without them, or with the namespaces."""
        watch.installed.clear()
        while True:
            try:
                found, version = await self._pages(watch.collection.kind, request)
                break
            except ObjectNotFound:
                await self._wait_for_crd(watch)
            except KubeError as error:
                await self._back_off(watch, error)
        watch.lists(int(version))
        self._allowed(watch)
        items: list[Manifest] = []
        if watch.collection.kind is _NAMESPACE:
            self._tell_later(found, version)
            self._now_exist({name_of(item) for item in found})
            items = found
        elif watch.collection.kind is _CRD:
            for item in found:
                self._installed(name_of(item))
        elif self._watches.get(watch.collection.path) is watch:  # its namespace has not vanished meanwhile
            self._handler.listed(watch.collection, found, int(version))
        watch.known.set()
        return {"metadata": {"resourceVersion": version}, "items": items}

    async def _pages(self, kind: ResourceKind, request: ApiRequest) -> tuple[list[Manifest], str]:
        names = {"apiVersion": kind.api_version, "kind": kind.name}  # which items lack
        query, limit, page = dict(request.query), _PAGE, ""
        found: list[Manifest] = []
        while True:
            query |= {"limit": str(limit), **({"continue": page} if page else {})}
            try:
                text = await self._watching.api.send(replace(request, query=tuple(query.items())))
                if limit > 1 and _takes_much(text):
                    raise ResponseTooLarge(0, "the objects of the list take too much memory together")
            except ResponseTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // _SMALLER)
                continue
            with _readable():
                response = decode(text)
                items, metadata = response["items"] or (), response["metadata"]
                page, version = metadata.get("continue", ""), metadata["resourceVersion"]
            found += filter(None, (self._watching.kept({**item, **names}) for item in items))
            if not page:
                return found, version

    async def _events(self, watch: Watch, request: ApiRequest) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch, and at the end of one that has failed, that its version has expired."""
        try:
            spoke = False
            try:
                async with self._watching.api.stream(request) as parts:
                    watch.opens()
                    while watch.collection.kind is _NAMESPACE and self._untold:
                        yield self._untold.pop(0) + b"\n"
                    async for lines in _lines(parts):
                        spoke = True
                        watch.heard()
                        for line in lines:
                            yield self._taken(watch, line) + b"\n"
            except asyncio.CancelledError:
                watch.is_quiet = not spoke
                raise
            finally:
                watch.ends()
            if not spoke:
                await self._back_off(watch, KubeError(0, "the API server ended the watch without a word"))
        except ObjectNotFound:  # the list waits for it
            yield _IS_EXPIRED
        except KubeError as error:
            await self._back_off(watch, error)
            yield _IS_EXPIRED

    def _taken(self, watch: Watch, line: bytes) -> bytes:
        """Return what kopf gets of an event; raises KubeError for an error of the watch."""
        kind = watch.collection.kind
        with _readable():
            event = decode(line)
            change, body = event["type"], event["object"]
            if change == "ERROR":
                raise error_for(body.get("code", 0), json.dumps(body))
            watch.tells(version_of(body))
        if change == "BOOKMARK":
            return line
        if kind is _NAMESPACE:
            name = name_of(body)
            self._now_exist(self._namespaces - {name} if change == "DELETED" else self._namespaces | {name})
        elif kind is _CRD:
            if change != "DELETED":
                self._installed(name_of(body))
            return _bookmark(body)  # at another event, kopf would discover its kinds again
        elif change != "DELETED" and self._watching.knows(body):
            return _bookmark(body)
        # kopf's decoder is slow: it gets what is kept of the object, which is half of it or less.
        return to_json({"type": change, "object": self._watching.kept(body) or body})

    def is_gone(self, namespace: str) -> bool:
        """Whether a namespace does not exist; of one that has just vanished, kopf may have events yet."""
        return bool(namespace) and self.namespaces_known.is_set() and namespace not in self._namespaces

    def _tell_later(self, found: list[Manifest], version: str) -> None:
        """Keep as events what a list of namespaces shows, unless it is the first one, which kopf reads."""
        if not self.namespaces_known.is_set():
            return
        names = {name_of(item) for item in found}
        changes = [("ADDED", item) for item in found if name_of(item) not in self._namespaces]
        changes += [("DELETED", {"metadata": {"name": name}}) for name in sorted(self._namespaces - names)]
        for change, item in changes:
            metadata = {**item["metadata"], "resourceVersion": version}
            self._untold.append(to_json({"type": change, "object": {**item, "metadata": metadata}}))

    def _now_exist(self, namespaces: set[str]) -> None:
        gone = self._namespaces - namespaces
        self._namespaces = namespaces
        self.namespaces_known.set()
        for path, watch in [*self._watches.items()]:
            if watch.collection.namespace in gone:
                del self._watches[path]
                watch.known.set()  # nobody has to wait for it any more
                self._handler.listed(watch.collection, (), LATEST)

    def _installed(self, crd: str) -> None:
        for watch in self._watches.values():
            if f"{watch.collection.kind.plural}.{watch.collection.kind.group}" == crd:
                watch.attempts = _CRD_ATTEMPTS
                watch.installed.set()

    async def _wait_for_crd(self, watch: Watch) -> None:
        """Wait until the CRD may be there; it is served a moment after the API server says that it is installed."""
        collection = watch.collection
        self._allowed(watch)
        if not watch.is_missing:
            optional = collection.kind.optional
            log.log(logging.INFO if optional else logging.WARNING, "%s is not there to watch", collection.path)
            watch.is_missing, watch.lost = True, None
            self._handler.listed(collection, (), LATEST)
        watch.known.set()
        seconds = self._watching.recheck
        if watch.attempts:
            seconds = _FIRST_BACKOFF * 2.0 ** (_CRD_ATTEMPTS - watch.attempts)
            watch.attempts -= 1
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await watch.installed.wait()
        watch.installed.clear()

    async def _back_off(self, watch: Watch, error: KubeError) -> None:
        watch.failures += 1
        path = watch.collection.path
        if error.status == _EXPIRED and watch.failures == 1:
            log.info("the watch of %s fell too far behind, so that it is listed again", path)
            return
        if isinstance(error, NotPermitted) and watch.collection.namespace:
            self._refused(watch, error)
        else:
            level = logging.INFO if watch.failures <= _QUIETLY else logging.WARNING
            log.log(level, "%s cannot be watched, and is tried again: %s", path, error)
        longest = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2.0 ** min(watch.failures - 1, 10))
        await self._watching.sleep(max(longest * (0.5 + self._watching.random() / 2), error.retry_after or 0))

    def _refused(self, watch: Watch, error: NotPermitted) -> None:
        """Let nobody wait for a namespace that may not be watched, and name it once: without it, all kinds fail.

        An API server that has just started may refuse what is allowed; that is over at the next attempts.
        """
        namespace = watch.collection.namespace
        watch.spoke = self._watching.clock()
        if watch.failures <= _QUIETLY:
            return
        if not self._is_refused(namespace):
            log.warning(
                "namespace %s cannot be watched: %s; create it, and allow this account to list and watch there "
                "(docs/install.md). It is tried again, and the other namespaces do not wait for it",
                namespace,
                error,
            )
        watch.is_refused = True
        watch.known.set()

    def _allowed(self, watch: Watch) -> None:
        """Note that the API server has looked for what is watched, and say so when it was the last of a namespace."""
        if watch.is_refused:
            watch.is_refused = False
            if not self._is_refused(watch.collection.namespace):
                log.info("namespace %s can be watched now", watch.collection.namespace)

    def _is_refused(self, namespace: str) -> bool:
        return any(watch.is_refused for watch in self._watches_in(namespace))

    def _watches_in(self, namespace: str) -> Iterator[Watch]:
        return (watch for watch in self._watches.values() if watch.collection.namespace == namespace)


class KopfResponse:
    """What kopf takes for an HTTP response: a ``body``, or the lines of a watch."""

    status: Final = 200

    def __init__(self, body: Manifest | None, lines: AsyncGenerator[bytes, None] | None = None) -> None:
        self._body = body
        self._lines = _nothing() if lines is None else lines

    async def json(self) -> Manifest | None:
        return self._body

    @property
    def content(self) -> Self:
        return self

    def iter_chunked(self, _: int) -> AsyncGenerator[bytes, None]:
        """Return the lines of a watch, of which a part has some."""
        return self._lines

    def close(self) -> None:
        """Do nothing: a watch ends with the iteration of its lines."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._lines.aclose()


def _takes_much(text: str) -> bool:
    """Whether a list should come in smaller pages: an empty object takes 60 times as much memory as its text."""
    return len(text) + _BRACKETS * (text.count("{") + text.count("[")) > LIST_BYTES


@contextmanager
def _readable() -> Iterator[None]:
    """Raise KubeError for what is not a response of an API server."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KubeError(0, f"what came is not an object: {type(error).__name__} {error}") from error


async def _nothing() -> AsyncGenerator[bytes, None]:
    """Yield nothing, and do not end."""
    await asyncio.get_running_loop().create_future()
    yield b""


def _collection(path: str, query: Mapping[str, str]) -> Collection | None:
    """Return what a path lists or watches; None if that is not a collection of ours."""
    parent, _, plural = path.rpartition("/")
    place, _, namespace = parent.partition("/namespaces/")
    kind = _KINDS.get((place, plural))
    return Collection(kind, namespace, query.get("fieldSelector", "")) if kind else None


def _accepted(kind: ResourceKind, *, is_list: bool) -> str:
    """Return what to accept: of kinds that only tell what there is, the metadata alone."""
    if kind.role is Role.DISCOVERY:
        return f"application/json;as=PartialObjectMetadata{'List' if is_list else ''};g=meta.k8s.io;v=v1"
    return "application/json"


def _bookmark(body: Manifest) -> bytes:
    """Return what tells kopf that the watch has come so far, and nothing else."""
    return to_json(
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": body["metadata"]["resourceVersion"]}}}
    )


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[Iterable[bytes]]:
    """Yield the whole lines of each part; raises KubeError for a line that is too long."""
    rest = b""
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > WATCH_LINE_BYTES:
            raise KubeError(0, f"an event has more than {WATCH_LINE_BYTES} bytes")
        yield [line for line in lines if line]
