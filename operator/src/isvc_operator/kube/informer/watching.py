"""What is watched, what takes the changes, and what is known of each watch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from isvc_operator.api.kinds import KINDS, ResourceKind
from isvc_operator.errors import OperatorError
from isvc_operator.kube.client import WatchApi
from isvc_operator.kube.informer.cache import trimmed
from isvc_operator.kube.requests import collection_path
from isvc_operator.manifests import Manifest
from isvc_operator.telemetry.snapshot import WatchState

LATEST: Final = 2**63  # no resource version is newer


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
        path = collection_path(self.kind, self.namespace)
        return f"{path}?fieldSelector={self.fields}" if self.fields else path


class WatchHandler(Protocol):
    """Takes what a watch reports."""

    def listed(self, collection: Collection, objects: Sequence[Manifest], version: int) -> None:
        """Take all objects of the collection as they were at a resource version."""

    def changed(self, change: str, body: Manifest) -> None:
        """Take an object that was ``ADDED``, ``MODIFIED`` or ``DELETED``."""


@dataclass(frozen=True)
class Watching:
    """How watches are run. ``clock`` counts seconds, ``random`` returns numbers from 0 to 1, ``sleep`` waits.

    ``recheck``: in how many seconds to look again for a kind whose CRD is not installed, without word of it.
    ``kept``: what is kept of an object; of a list, only those of which something is. ``kinds``: those that may be
    watched. ``knows``: whether this version of an object is known already, such as by the response to our own write:
    kopf gets no event of it.
    ``fail``: what ends the operator for an error of a list; kopf would leave its other watches running.
    """

    api: WatchApi
    clock: Callable[[], float]
    random: Callable[[], float]
    recheck: float | None = None
    kept: Callable[[Manifest], Manifest | None] = trimmed
    knows: Callable[[Manifest], bool] = lambda _: False
    kinds: tuple[ResourceKind, ...] = KINDS
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    fail: Callable[[Exception], None] | None = None


@dataclass
class Watch:
    """What is known of the watch of a collection; times by ``clock``, which counts seconds.

    ``known`` is set when its objects were listed, or when its CRD is not installed, or when the account may not watch
    its namespace (``is_refused``); ``installed`` when word of its CRD came. ``is_quiet``: it was closed before anything
    came, which happens at intervals. ``opened``: how often it was opened, but for the times after that. ``spoke``: when
    something came last, ``lost``: since when it is not open any more. ``failures``: in a row, ``attempts``: that are
    left to list a kind whose CRD was just installed. ``newest`` is the newest resource version that the API server has
    told.
    """

    collection: Collection
    clock: Callable[[], float]
    known: asyncio.Event = field(default_factory=asyncio.Event)
    installed: asyncio.Event = field(default_factory=asyncio.Event)
    is_missing: bool = False
    is_listed: bool = False
    is_refused: bool = False
    is_quiet: bool = False
    opened: int = 0
    spoke: float = 0.0
    lost: float | None = None
    failures: int = 0
    attempts: int = 0
    newest: int = 0

    def __post_init__(self) -> None:
        self.spoke = self.clock()

    def lists(self, version: int) -> None:
        """Note that all objects are known as they were at a resource version; raises OlderState."""
        if version < self.newest:
            raise OlderState(f"{self.collection.path} is at resource version {version} and was at {self.newest}")
        self.is_listed, self.is_missing = True, False
        self.spoke = self.clock()
        self.newest = version

    def tells(self, version: int) -> None:
        """Note the resource version of an event or a bookmark."""
        self.newest = max(self.newest, version)

    def heard(self) -> None:
        self.spoke = self.clock()
        self.failures = 0

    def opens(self) -> None:
        self.opened += not self.is_quiet
        self.is_quiet = False
        self.spoke = self.clock()
        self.lost = None

    def ends(self) -> None:
        """Note that the watch is not open any more; what never was is not lost."""
        if self.opened and self.lost is None:
            self.lost = self.clock()

    def state(self) -> WatchState:
        """Return what the probes and the metrics tell of it."""
        return WatchState(
            resource=self.collection.kind.plural,
            path=self.collection.path,
            listed=self.is_listed,
            silent=self.clock() - self.spoke,
            starts=self.opened,
        )
