"""What a server serves: models, by name and version, and whether each of them can answer.

A runtime brings the models; endpoints and the gRPC service see nothing else of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from data_plane.errors import ModelNotFound, NotReady, Unsupported
from data_plane.messages import Headers, Response, StreamingResponse

if TYPE_CHECKING:
    from data_plane.protocol.v1 import PredictRequest
    from data_plane.protocol.v2.requests import InferRequest, InferResponse, ModelMetadata

State = Literal["READY", "LOADING", "UNAVAILABLE"]

LOADING = "is loading"


class Call(msgspec.Struct):
    """What travels with a request besides its payload."""

    headers: Headers
    id: str
    is_gone: Callable[[], bool]  # the client hung up
    deadline: float = math.inf  # on time.monotonic()'s clock
    timeout_s: float = math.inf  # what was allowed until then, as it was configured
    timings: dict[str, float] = msgspec.field(default_factory=dict)  # seconds by stage: queue, batch, model, transport


# Named pieces of a request beside its body.
Fields = Sequence[tuple[str, bytes]]


class Model(Protocol):
    """One version of a model. Every method raises a ServingError for what goes wrong."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    async def metadata(self) -> ModelMetadata:
        """What the model takes and gives, as far as it is known."""
        ...

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        """Answers a request of the v1 protocol."""
        ...

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        """Explains instead of predicting."""
        ...

    async def infer(self, request: InferRequest, call: Call) -> InferResponse:
        """Answers a request of the v2 protocol."""
        ...

    async def raw(
        self,
        body: bytes,
        content_type: str,
        path: str,
        call: Call,
        *,
        explain: bool = False,
        name: str = "body",
        fields: Fields = (),
    ) -> Response | StreamingResponse:
        """Answers a request in the model's own form, as TorchServe's `/predictions/<model>/<version>/<path>` does.

        What calls its pieces by names gets the body by `name`, or none where that is empty, and beside it the `fields`.

        An answer that the model makes piece by piece has an iterator of its pieces. It raises the ServingError that the
        answer broke off with, and is to be closed by who does not read it to the end.
        """
        ...


class Streaming(ABC):
    """A model whose answer to tensors may be several responses, each sent when it is made."""

    @abstractmethod
    def infer_stream(self, request: InferRequest, call: Call) -> AsyncGenerator[InferResponse, None]:
        """The responses, one for an answer that comes whole; raises as `infer` does, also after the first."""


class Forwarder(ABC):
    """A model that can also hand a request on to another server without reading it."""

    @property
    @abstractmethod
    def forwards(self) -> bool:
        """Whether nobody here looks at requests, as things are now."""

    @abstractmethod
    async def forward(self, message: bytes, call: Call) -> bytes:
        """The other server's answer to a gRPC ModelInferRequest, both as they came; raises a ServingError."""


class Repository(Protocol):
    """Where models can be loaded from while the server runs."""

    async def load(self, name: str) -> None:
        """Returns when the model is ready."""
        ...

    async def unload(self, name: str) -> None:
        """Returns when requests under way are finished and the model is gone."""
        ...


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version of a model in the repository's index."""

    name: str
    version: str
    state: State
    reason: str


class Models:
    """The models of a server, loaded or yet to be.

    `alias`, where given, is another name for the model of a server that serves just one: people know it by the
    service's name.
    """

    def __init__(self, expected: Iterable[str] = (), alias: str | None = None) -> None:
        self.draining = False
        self.repository: Repository | None = None
        self._alias = alias
        self._versions: dict[str, dict[str, Model]] = {name: {} for name in expected}
        self._default: dict[str, str] = {}
        self._reasons: dict[str, str] = dict.fromkeys(self._versions, LOADING)
        self._recovering: set[str] = set()
        self._given_up: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        """Every model, ready or not."""
        return tuple(self._versions)

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why each model that is not ready is not."""
        return self._reasons

    @property
    def ready(self) -> bool:
        """The server takes requests, and all models can answer but those that are given up."""
        return not self.draining and self._reasons.keys() <= self._given_up

    def add(self, model: Model, *, default: bool = False) -> None:
        """Serve this version; the first one of a model is its default until another is named."""
        self._versions.setdefault(model.name, {})[model.version] = model
        if default or model.name not in self._default:
            self._default[model.name] = model.version

    def remove(self, name: str) -> None:
        """Forget a model with all its versions."""
        self.mark_ready(name)
        for of_models in (self._versions, self._default):
            of_models.pop(name, None)

    def mark_ready(self, name: str) -> None:
        """The model can answer."""
        self._reasons.pop(name, None)
        self._recovering.discard(name)
        self._given_up.discard(name)

    def mark_unready(self, name: str, reason: str) -> None:
        """The model cannot answer: `reason` continues the sentence that its name begins."""
        self._versions.setdefault(name, {})
        self._reasons[name] = reason
        self._recovering.discard(name)
        self._given_up.discard(name)

    def mark_recovering(self, name: str, reason: str) -> None:
        """The model cannot answer at the moment, but soon will: requests are taken, and wait."""
        self.mark_unready(name, reason)
        self._recovering.add(name)

    def mark_given_up(self, name: str, reason: str) -> None:
        """The model cannot answer and will not by itself: the server goes on for the others."""
        self.mark_unready(name, reason)
        self._given_up.add(name)

    def resolve(self, name: str) -> str:
        """The model's own name; raises ModelNotFound."""
        if name in self._versions:
            return name
        if name == self._alias and len(self._versions) == 1:
            return next(iter(self._versions))
        raise ModelNotFound(name, self._versions)

    def get(self, name: str, version: str | None = None) -> Model:
        """The model that takes requests, in its default version if none is named; raises ModelNotFound and NotReady."""
        own = self.resolve(name)
        if own in self._reasons and own not in self._recovering:
            raise NotReady(f"Model with name {own} is not ready: it {self._reasons[own]}.")
        return self._of(own, version)

    def known(self, name: str, version: str | None = None) -> Model:
        """The model, ready or not; raises ModelNotFound."""
        return self._of(self.resolve(name), version)

    def _of(self, own: str, version: str | None) -> Model:
        versions = self._versions[own]
        if version is not None and version not in versions:
            raise ModelNotFound(f"{own}, version {version},", (f"{own} {known}" for known in versions))
        return versions[version if version is not None else self._default[own]]

    def versions(self, name: str) -> tuple[str, ...]:
        """The versions of a model; raises ModelNotFound."""
        return tuple(self._versions[self.resolve(name)])

    def is_ready(self, name: str, version: str | None = None) -> bool:
        """Whether the model can answer; raises ModelNotFound."""
        own = self.resolve(name)
        if version is not None and version not in self._versions[own]:
            raise ModelNotFound(f"{own}, version {version},", (f"{own} {known}" for known in self._versions[own]))
        return own not in self._reasons

    def index(self) -> list[IndexEntry]:
        """Every version of every model; a model that is not loaded has one entry without a version."""
        return [
            IndexEntry(name, version, self._state(name), self._reasons.get(name, ""))
            for name, versions in self._versions.items()
            for version in versions or [""]
        ]

    def _state(self, name: str) -> State:
        if name not in self._reasons:
            return "READY"
        return "LOADING" if self._reasons[name] == LOADING else "UNAVAILABLE"

    async def load(self, name: str) -> None:
        """Load a model from the repository; raises Unsupported where there is none."""
        await self._repository().load(name)

    async def unload(self, name: str) -> None:
        """Take a model out of service; raises Unsupported where there is no repository."""
        await self._repository().unload(name)

    def _repository(self) -> Repository:
        if self.repository is None:
            raise Unsupported("This server does not load or unload models while it runs.")
        return self.repository
