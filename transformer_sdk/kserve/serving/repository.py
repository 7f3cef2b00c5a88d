"""Serve, load and unload the models of a user's repository."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from data_plane.errors import UnknownModel
from data_plane.health import State
from data_plane.messages import text_of
from data_plane.model import IndexEntry, Models
from transformer_sdk.kserve.errors import ModelNotReady
from transformer_sdk.kserve.hooks import all_ended, call, done
from transformer_sdk.kserve.model import BaseKServeModel, InferenceModel, InferenceVerb, Model, Payload
from transformer_sdk.kserve.model_repository import ModelRepository
from transformer_sdk.kserve.serving.metrics import HookMetrics
from transformer_sdk.kserve.serving.pipeline import Pipeline
from transformer_sdk.kserve.serving.served import UNREADY, ServedModel
from transformer_sdk.kserve.serving.threads import HookThreads

log = logging.getLogger(__name__)

_REFRESH_S = 1.0


class CalledModel(Model):
    """A model that calls another as KServe does; the other reports whether it is ready."""

    def __init__(self, model: InferenceModel) -> None:
        super().__init__(model.name)
        self._model = model

    async def __call__(
        self,
        body: Payload,
        headers: dict[str, str] | None = None,
        verb: InferenceVerb = InferenceVerb.PREDICT,
    ) -> Any:
        if verb is InferenceVerb.EXPLAIN:
            return await done(self._model(body, headers=headers, verb=verb))
        return await done(self._model(body, headers=headers))

    def get_input_types(self) -> Any:
        return self._model.get_input_types()

    def get_output_types(self) -> Any:
        return self._model.get_output_types()


class HookedModels(Models):
    """The server's models, synchronized with the repository at each request: user code may add and remove models."""

    enabled_by = "the argument --enable_model_api=true"

    def __init__(self, repository: ModelRepository, threads: HookThreads, metrics: HookMetrics) -> None:
        super().__init__()
        self._users = repository
        self._wrapped: dict[str, ServedModel] = {}
        self._threads = threads
        self._metrics = metrics
        self._sync_all()

    @property
    def names(self) -> tuple[str, ...]:
        self._sync_all()
        return super().names

    def resolve(self, name: str) -> str:
        self._sync(name)
        return super().resolve(name)

    def index(self) -> list[IndexEntry]:
        self._sync_all()
        return super().index()

    def served(self, name: str, version: str | None = None) -> ServedModel:
        """Return the model, ready or not; raises UnknownModel."""
        if version is not None:
            return cast("ServedModel", self.known(name, version))
        self._sync(name)
        return self._wrapped[name] if name in self._wrapped else cast("ServedModel", self.known(name))

    async def close(self) -> None:
        """Close threads and clients, after the last response."""
        self._threads.close()
        for one in self._wrapped.values():
            await one.model._close_clients()

    async def stop(self) -> None:
        """Unload every model in the thread that loaded it; after a failure, continue with the others."""
        for name in list(self._users.get_models()):
            try:
                await done(self._users.unload(name))
                await all_ended()
            except Exception:
                log.exception("model %s could not be stopped", name)

    async def keep_fresh(self) -> None:
        """Refresh the health of all models, which gRPC reads from here. An error of the repository is logged once."""
        logged = ""
        while True:
            try:
                for name in self.names:
                    await self.served(name).refresh(self)
            except Exception as error:  # noqa: BLE001 - the server continues with the models that it knows
                if (text := f"{type(error).__name__}: {text_of(error)}") != logged:
                    log.warning("the readiness of the models cannot be checked: %s", text)
                logged = text
            await asyncio.sleep(_REFRESH_S)

    def _sync_all(self) -> None:
        for name in {**self._users.get_models(), **self._wrapped}:
            self._sync(name)

    def _sync(self, name: str) -> None:
        """Synchronize one model with the repository: add, replace or remove it."""
        model = self._users.get_model(name)
        known = self._wrapped.get(name)
        if model is (known.given if known else None):
            return
        if known:
            self.remove(name)
            del self._wrapped[name]
        if model is not None:
            served = self._wrapped[name] = self._serving(name, model)
            self.add(served)
            if served.is_ready_hook is None and not model.ready:
                self.record(name, State.UNREADY, UNREADY.reason)

    def _serving(self, name: str, model: BaseKServeModel) -> ServedModel:
        if not isinstance(model, InferenceModel):
            raise TypeError(
                f"Model {name} is a {type(model).__name__}, which answers no requests; derive it from Model."
            )
        hooked = model if isinstance(model, Model) else CalledModel(model)
        pipeline = Pipeline(hooked, self._threads, self._metrics.of_model(name))
        return ServedModel(name, hooked, pipeline, given=model, is_ready_hook=self._readiness_hook(name, model))

    def _readiness_hook(self, name: str, model: BaseKServeModel) -> Callable[[], Any] | None:
        """Return the function that reports whether the model is ready, or None if its attribute `ready` does."""
        if type(self._users).is_model_ready is not ModelRepository.is_model_ready:
            return partial(self._users.is_model_ready, name)
        is_own = getattr(model.healthy, "__func__", model.healthy) is not BaseKServeModel.healthy
        return model.healthy if is_own or not isinstance(model, Model) else None


class UsersRepository:
    def __init__(self, models: HookedModels, users: ModelRepository) -> None:
        self._models = models
        self._users = users

    async def load(self, name: str) -> None:
        """Load a model from the repository; raises ModelNotReady if this fails or the model is not ready afterwards."""
        try:
            result = await call(self._users.load, name)
        except Exception as error:
            log.exception("the repository's load of %r raised", name)
            raise ModelNotReady(name, f"Its load raised {type(error).__name__}: {text_of(error)}") from error
        if result is False:
            raise ModelNotReady(name, "The repository's load returned False.")
        try:
            health = await self._models.served(name).health()
        except UnknownModel as error:
            raise ModelNotReady(name, "The repository's load has added no model of this name.") from error
        if not health.is_ready:
            raise ModelNotReady(name, f"It {health.reason}.")
        self._models.record(name, State.READY)

    async def unload(self, name: str) -> None:
        """Unload a model from the repository; raises UnknownModel. Requests in progress are finished."""
        self._models.resolve(name)
        try:
            await call(self._users.unload, name)
            await all_ended()
        except KeyError as error:
            raise UnknownModel(name, self._models.names) from error
