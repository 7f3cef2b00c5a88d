"""What is watched, what takes the changes, and what is known of each watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from isvc_operator.api.kinds import ResourceKind
from isvc_operator.errors import OperatorError
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
        ...

    def changed(self, change: str, body: Manifest) -> None:
        """Take an object that was ``ADDED``, ``MODIFIED`` or ``DELETED``."""
        ...


@dataclass
class Watch:
    """What is known of the watch of a collection; times by ``clock``, which counts seconds.

    ``known`` is set when its objects were listed, or when its CRD is not installed. ``installed`` is set when word of
    its CRD came. ``spoke``: when something came last, ``opened``: how often it was opened, ``lost``: since when it is
    not open any more, ``failures``: in a row, ``attempts``: to list a kind whose CRD was just installed. ``newest`` is
    the newest resource version that the API server has told.
    """

    collection: Collection
    clock: Callable[[], float]
    known: asyncio.Event = field(default_factory=asyncio.Event)
    installed: asyncio.Event = field(default_factory=asyncio.Event)
    is_missing: bool = False
    is_listed: bool = False
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
        """Note that something came from the API server."""
        self.spoke = self.clock()
        self.failures = 0

    def opens(self) -> None:
        """Note that the API server has accepted a watch."""
        self.opened += 1
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
