"""The models that a server serves, by name and version, and the health of each.

A runtime adds the models; the endpoints and the gRPC service use nothing else of it.
"""

from __future__ import annotations

import ipaddress
import math
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from data_plane import health
from data_plane.errors import NotLocal, NotReady, UnknownModel, UnknownVersion, Unsupported
from data_plane.health import ACCEPTS_REQUESTS, Health, State
from data_plane.messages import Headers, Request, Response, StreamingResponse

if TYPE_CHECKING:
    from data_plane.protocol.torchserve.requests import RawRequest
    from data_plane.protocol.v1 import PredictRequest
    from data_plane.protocol.v2.requests import ModelMetadata, TensorRequest, TensorResponse

# The v2 protocol's names for states.
IndexState = Literal["READY", "LOADING", "UNAVAILABLE"]


class Call(msgspec.Struct):
    """The headers, id, deadline and timings of a request: everything except its payload."""

    headers: Headers
    id: str
    is_gone: Callable[[], bool]  # the client disconnected
    deadline: float = math.inf  # on time.monotonic()'s clock
    timeout_s: float = math.inf  # what was allowed until then, as it was configured
    timings: dict[str, float] = msgspec.field(default_factory=dict)  # seconds by stage: queue, batch, model, transport
    peer: Callable[[], str] = str  # the client's IP address

    @classmethod
    def begin(cls, request: Request, timeout_s: float) -> Call:
        """Return the call of a request that has just arrived, and has so many seconds."""
        deadline = time.monotonic() + timeout_s
        return cls(request.headers, request.id, request.is_gone, deadline, timeout_s, request.timings)


class ServableModel(Protocol):
    """One version of a model. Its methods raise ServingErrors."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    async def metadata(self) -> ModelMetadata:
        """Return the inputs and outputs of the model, as far as they are known."""
        ...

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        """Respond to a request of the v1 protocol."""
        ...

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        """Return explanations instead of predictions."""
        ...

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        """Respond to a request of the v2 protocol."""
        ...

    async def raw(self, request: RawRequest, call: Call) -> Response | StreamingResponse:
        """Respond to a request in the model's own form, as TorchServe's `/predictions/<model>/<version>/<path>` does.

        A streamed response has an iterator of its pieces, which raises the ServingError that ended it early. Whoever
        does not read it to the end has to close it.
        """
        ...


class Streaming(ABC):
    """A model whose response to tensors may be several responses, each sent when it is made."""

    @abstractmethod
    def infer_stream(self, request: TensorRequest, call: Call) -> AsyncGenerator[TensorResponse, None]:
        """The responses, one for a response that comes whole; raises as `infer` does, also after the first."""


class Forwarder(ABC):
    """A model that can forward a request to another server without reading it."""

    @property
    @abstractmethod
    def forwards(self) -> bool:
        """Whether requests are currently forwarded without being decoded here."""

    @abstractmethod
    async def forward(self, message: bytes, call: Call) -> bytes:
        """The other server's response to a gRPC ModelInferRequest, both as they came; raises a ServingError."""


class Repository(Protocol):
    """Loads and unloads models while the server runs."""

    async def load(self, name: str) -> None:
        """Return when the model is ready."""
        ...

    async def unload(self, name: str) -> None:
        """Return when requests under way are finished and the model is gone."""
        ...


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version of a model in the repository's index."""

    name: str
    version: str
    state: IndexState
    reason: str


class Models:
    """The models of a server, loaded or expected.

    `alias` is another name for the model of a server that serves only one: users know it by the service's name.
    `repository` is set if the configuration lets clients load and unload models, and `management_address` if they may
    do so by TorchServe's management API, too.
    """

    enabled_by = "the argument --enable-model-api, or enable_model_api=true in config.properties"

    def __init__(self, expected: Iterable[str] = (), alias: str | None = None) -> None:
        self.draining = False
        self.repository: Repository | None = None
        self.management_address = ""
        self._is_emptied = False  # the last model has been removed
        self._alias = alias
        self._versions: dict[str, dict[str, ServableModel]] = {}
        self._default: dict[str, str] = {}
        self._health: dict[str, Health] = {}
        names = tuple(expected)
        self._expected = set(names)  # those that have not been ready yet
        for name in names:
            self.record(name, State.LOADING)

    @property
    def names(self) -> tuple[str, ...]:
        """Every model, ready or not."""
        return tuple(self._versions)

    @property
    def reasons(self) -> dict[str, str]:
        """The reason for each model that is not ready."""
        return {name: one.reason for name, one in self._health.items() if not one.is_ready}

    @property
    def reason(self) -> str:
        """Why the server takes no requests, whatever its models say; empty if it does."""
        if self.draining:
            return "the server is shutting down"
        return "every model has been unloaded" if self._is_emptied else ""

    @property
    def ready(self) -> bool:
        """Whether the server takes requests, and every model that has not failed is ready.

        Those that are loaded or unloaded by request do not matter while another one is ready.
        """
        by_request = {name for name, one in self._health.items() if one.is_changing} - self._expected
        others = [one for name, one in self._health.items() if name not in by_request]
        has_ready = not by_request or any(one.is_ready for one in others)
        return has_ready and not self.reason and not any(one.holds_back_readiness for one in others)

    def add(self, model: ServableModel, *, default: bool = False) -> None:
        """Serve this version; the first version of a model is its default until another is named.

        A model that was not expected is ready.
        """
        self._is_emptied = False
        self._versions.setdefault(model.name, {})[model.version] = model
        self._health.setdefault(model.name, health.READY)
        if default or model.name not in self._default:
            self._default[model.name] = model.version

    def remove(self, name: str) -> None:
        for of_models in (self._versions, self._default, self._health):
            of_models.pop(name, None)
        self._is_emptied = not self._versions

    def health(self, name: str) -> Health | None:
        """Return the model's health; None for a model that is not known."""
        return self._health.get(name)

    def record(self, name: str, state: State, reason: str = "") -> bool:
        """Change the model's health, where this state may follow, and return whether it changed."""
        before = self._health.get(name)
        after = health.after(before, state, reason)
        if after is None or after == before:
            return False
        self._versions.setdefault(name, {})
        self._health[name] = after
        if after.is_ready:
            self._expected.discard(name)
        return True

    def resolve(self, name: str) -> str:
        """Return the model's own name; raises UnknownModel."""
        if name in self._versions:
            return name
        if name == self._alias and len(self._versions) == 1:
            return next(iter(self._versions))
        raise UnknownModel(name, self._versions)

    def get(self, name: str, version: str | None = None) -> ServableModel:
        """Return the model if it accepts requests, in its default version if none is named.

        Raises UnknownModel and NotReady.
        """
        own = self.resolve(name)
        if (one := self._health[own]).state not in ACCEPTS_REQUESTS:
            raise NotReady(f"Model with name {own} is not ready: it {one.reason}.")
        return self._of(own, version)

    def known(self, name: str, version: str | None = None) -> ServableModel:
        """Return the model, ready or not; raises UnknownModel."""
        return self._of(self.resolve(name), version)

    def _of(self, own: str, version: str | None) -> ServableModel:
        if version is None:
            return self._versions[own][self._default[own]]
        self._check(own, version)
        return self._versions[own][version]

    def _check(self, own: str, version: str) -> None:
        versions = self._versions[own]
        if version not in versions:
            raise UnknownVersion(own, version, versions)

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a model; raises UnknownModel."""
        return tuple(self._versions[self.resolve(name)])

    def is_ready(self, name: str, version: str | None = None) -> bool:
        """Return whether the model can serve requests; raises UnknownModel."""
        own = self.resolve(name)
        if version is not None:
            self._check(own, version)
        return self._health[own].is_ready

    def index(self) -> list[IndexEntry]:
        """Return every version of every model; a model that is not loaded has one entry without a version."""
        return [
            IndexEntry(name, version, _INDEX_STATES.get(one.state, "UNAVAILABLE"), one.reason)
            for name, one in self._health.items()
            for version in self._versions[name] or [""]
        ]

    @property
    def management(self) -> str:
        """How clients load and unload models."""
        if self.management_address:
            return f"the management API is at {self.management_address} in the pod; GET /v1/models lists the models."
        if self.repository:
            return (
                "models are loaded and unloaded by POST /v2/repository/models/<model>/load and …/unload, and GET "
                "/v1/models lists them."
            )
        return f"models are not loaded or unloaded here; enable it with {self.enabled_by}. GET /v1/models lists them."

    async def load(self, name: str, peer: str) -> None:
        """Load a model from the repository for the client at `peer`; raises Unsupported and NotLocal."""
        await self._repository_for(peer).load(name)

    async def unload(self, name: str, peer: str) -> None:
        """Take a model out of service for the client at `peer`; raises Unsupported and NotLocal."""
        await self._repository_for(peer).unload(name)

    def _repository_for(self, peer: str) -> Repository:
        """Return the repository for a client of this pod: what comes by a Service or an Ingress would change one of its
        pods, and anybody could send it."""
        if self.repository is None:
            raise Unsupported(
                f"This server does not load or unload models while it runs; enable it with {self.enabled_by}."
            )
        if not _is_loopback(peer):
            raise NotLocal
        return self.repository


def _is_loopback(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:  # the address is not known
        return False
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


_INDEX_STATES: Mapping[State, IndexState] = {State.READY: "READY", State.LOADING: "LOADING"}
